"""A threshold in requests of the rerank API."""

from __future__ import annotations

from rerank_server import ask, serving

from ragtune.facade.calibration import Calibration
from ragtune.rerankers.function import FunctionReranker
from ragtune.services.rerank import RerankServer

HALF = Calibration(model="m", method="isotonic", scores=(0.0, 1.0), probabilities=(0.0, 0.5))
REQUEST = {"query": "tea", "documents": ["8", "2", "9", "7", "3", "1"], "budget": {"docs": 4}}


def test_answers_have_what_reaches_it_and_say_where_nothing_does() -> None:
    tenths = FunctionReranker(lambda query, texts: [int(text) / 10 for text in texts])
    with serving(RerankServer(tenths, "m", policy="fixed_depth", calibration=HALF)) as url:
        some, none, plain = (
            ask(url, "/v2/rerank", REQUEST | more).json()
            for more in ({"min_score": 0.36, "top_n": 5}, {"min_score": 0.5}, {})
        )
        wrong = ask(url, "/v2/rerank", REQUEST | {"min_score": 1.1})
    assert [(one["index"], one["relevance_score"]) for one in some["results"]] == [(2, 0.45), (0, 0.4)]
    assert "nothing_relevant" not in some["ragtune"]
    assert none["results"] == []
    assert none["ragtune"]["nothing_relevant"] is True
    assert none["ragtune"]["spent"]["docs"] == 4
    assert len(plain["results"]) == 6
    assert "nothing_relevant" not in plain["ragtune"]
    assert wrong.status_code == 422
    assert "/min_score" in wrong.json()["detail"]
