"""Documents of the same text and the same score, in a replay."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.replay.build import build_session

ONE, OTHER = "ship-2", "heart-1"


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
        ["estimator=uncertainty", "estimator.trust=0.1", "scheduler=settled"],
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
