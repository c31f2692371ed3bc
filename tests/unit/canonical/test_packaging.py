import json

import pytest

from ragtune.canonical.compression import compress
from ragtune.canonical.packaging import package
from ragtune.canonical.types import Candidate
from ragtune.core.errors import InputError

FIRST = Candidate(
    doc_id="d", chunk_index=1, content="Ship.", score=0.5, tags=("a",), metadata={"k": [1]}, sources={"vector": 0.5}
)
SECOND = Candidate(doc_id="e", chunk_index=0, content="Anchor. Rope.", score=0.25)


def test_results_are_json_in_the_order_given() -> None:
    packed = package("ship", [FIRST, SECOND])
    assert packed["query"] == "ship"
    assert packed["count"] == 2
    assert packed["results"][0] == {
        "rank": 1,
        "doc_id": "d",
        "chunk_index": 1,
        "score": 0.5,
        "sources": {"vector": 0.5},
        "tags": ["a"],
        "metadata": {"k": [1]},
        "content": "Ship.",
    }
    assert packed["results"][1]["rank"] == 2
    assert json.loads(json.dumps(packed, allow_nan=False)) == packed


def test_excerpts_stand_beside_or_instead_of_the_content() -> None:
    excerpts = compress("ship", [FIRST])
    beside = package("ship", [FIRST, SECOND], excerpts)["results"]
    assert [[excerpt["text"] for excerpt in result["excerpts"]] for result in beside] == [["Ship."], []]
    assert set(beside[0]["excerpts"][0]) == {"start", "end", "text", "score", "tokens"}
    instead = package("ship", [FIRST, SECOND], excerpts, include_content=False)["results"]
    assert all("content" not in result for result in instead)


def test_bad_parts_are_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"\('d', 1\) occurs twice"):
        package("ship", [FIRST, SECOND, FIRST])
    with pytest.raises(InputError, match=r"excerpts: \('e', 0\) is not among the candidates"):
        package("ship", [FIRST], compress("rope", [SECOND]))
    with pytest.raises(InputError, match=r"metadata of \('d', 1\)\['k'\]=nan"):
        package("ship", [FIRST.model_copy(update={"metadata": {"k": float("nan")}})])
