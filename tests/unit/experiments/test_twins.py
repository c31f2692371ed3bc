"""Documents of the same text and the same score, in a replay."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.replay.build import build_session
from ragtune import BudgetedReranker

ONE, OTHER = "ship-2", "heart-1"
COMPARING = ("acurank", "blitzrank", "jointrank", "knockout", "plackett_luce", "sliding", "tdpart", "tourrank")


@pytest.fixture
def with_twins(collection: Path) -> Path:
    """The small collection, where two documents far apart in the first stage have one text and one score."""
    documents = [json.loads(line) for line in (collection / "corpus.jsonl").read_text().splitlines()]
    text = next(document for document in documents if document["_id"] == ONE)
    documents = [text | {"_id": OTHER} if document["_id"] == OTHER else document for document in documents]
    (collection / "corpus.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))
    lines = [line.split() for line in (collection / "scores.run").read_text().splitlines()]
    scores = {(query, doc): score for query, _, doc, _, score, _ in lines}
    for line in lines:
        line[4] = scores[line[0], ONE if line[2] == OTHER else line[2]]
    (collection / "scores.run").write_text("".join(" ".join(line) + "\n" for line in lines))
    return collection


@pytest.mark.usefixtures("with_twins")
@pytest.mark.parametrize(
    "policy",
    [
        ["estimator=uncertainty", "estimator.trust=0.1"],  # first-stage evidence, which differs, weighs much
        ["estimator=bagel"],
        ["experiment=fixed_depth"],
    ],
)
def test_twins_stay_together_in_a_replay(compose_tiny: Callable[..., dict[str, Any]], policy: list[str]) -> None:
    session = build_session(compose_tiny(*policy, "budget=unlimited"))
    met = 0
    for query_id, query in session.dataset.queries.items():
        output = session.controller.run(query, query_id=query_id)
        scores = dict(zip(output.history[-1].doc_ids, output.history[-1].columns.scores.tolist(), strict=True))
        if scores[ONE] == scores[OTHER]:  # equal, so neither is NaN: both were scored
            met += 1
            places = [output.ranking.index(doc_id) for doc_id in (ONE, OTHER)]
            assert abs(places[0] - places[1]) == 1
    assert met


@pytest.mark.parametrize("policy", COMPARING)
def test_twins_stay_together_where_windows_are_compared(policy: str) -> None:
    """Whoever compares sees twins in different windows, among others each time."""

    def scores(query: str, texts: list[str]) -> list[float]:
        return [zlib.crc32(text.encode()) / 2**32 for text in texts]

    reranker = BudgetedReranker(scores, policy=policy, docs=400, scale="identity")
    texts = [f"passage {i % 30}" for i in range(60)]  # the second half are twins of the first
    found = reranker.rank("passages", texts)
    places = {document.index: at for at, document in enumerate(found)}
    reranked = {document.index for document in found if document.reranked}
    both = [(i, i + 30) for i in range(30) if reranked.issuperset((i, i + 30))]
    assert both
    assert [abs(places[one] - places[other]) for one, other in both] == [1] * len(both)
