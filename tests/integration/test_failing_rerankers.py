"""What a failing reranker may cost: never more than what it would have brought (rule F1), in nDCG@10."""

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from experiments.config.compose import compose
from experiments.replay.build import Session, build_session, controller_of, load_measures
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.rerankers._wrapped import WrappedReranker

DATA = Path(__file__).parents[3] / "shared" / "data"
DL19, NFCORPUS = DATA / "dl19", DATA / "nfcorpus"

COLLECTIONS = {
    "demo": ["dataset=demo"],
    "dl19": [
        "dataset=beir",
        f"dataset.path={DL19}",
        "retriever=runs",
        f"retriever.paths={DL19}/runs/bm25.run",
        f"reranker.scores={DL19}/scores/monot5-base.run",
        "reranker.scale=log_prob",
    ],
    "nfcorpus": [
        "dataset=beir",
        f"dataset.path={NFCORPUS}",
        "retriever=runs",
        f"retriever.paths={NFCORPUS}/runs/bm25.run",
        f"reranker.scores={NFCORPUS}/scores/ce.run",
        "reranker.scale=identity",
    ],
}

POLICIES = {"one_shot": ["experiment=fixed_depth"], "uncertainty": ["experiment=uncertainty"]}

RATES = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)


class Flaky(WrappedReranker):
    """Fails a share of the batches, or of their documents; which ones depends on the query and the documents alone."""

    def __init__(self, inner: BaseReranker, rate: float, loses: str = "batches") -> None:
        super().__init__(inner)
        self._rate, self._loses = rate, loses

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        ids = [item.doc_id for item in items]
        if self._loses == "batches":
            if self._is_lost(context.query_id, *ids):
                raise ConnectionError("the server is gone")
            return self.inner.rerank(items, context, strategy)
        kept = [item for item in items if not self._is_lost(context.query_id, item.doc_id)]
        return self.inner.rerank(kept, context, strategy)

    def _is_lost(self, *what: str) -> bool:
        return random.Random("\x00".join(what)).random() < self._rate


@cache
def made(*overrides: str) -> tuple[dict[str, Any], Session]:
    config = compose([*overrides, "tracking=none", "failures.requests_in_a_row=100000"])
    return config, build_session(config)


def flaky_session(config: dict[str, Any], session: Session, rate: float, loses: str = "batches") -> Session:
    rerankers = {name: Flaky(reranker, rate, loses) for name, reranker in session.rerankers.items()}
    return replace(session, controller=controller_of(config, session.parts, rerankers))


def qualities(name: str, policy: str, rate: float, loses: str = "batches") -> tuple[float, ...]:
    """Mean nDCG@10 of the first stage, of the policy's order before its first batch, and of its answers."""
    config, session = made(*COLLECTIONS[name], *POLICIES[policy])
    session = flaky_session(config, session, rate, loses)
    dataset = session.dataset
    rankings: list[dict[str, Sequence[str]]] = [{}, {}, {}]
    for query_id in dataset.judged:
        output = session.controller.run(dataset.queries[query_id], query_id=query_id)
        found = output.history[0].doc_ids, output.history[0].ranking, output.ranking
        for ranking, doc_ids in zip(rankings, found, strict=True):
            ranking[query_id] = doc_ids
    same = {query_id: query_id for query_id in dataset.judged}
    return tuple(float(load_measures(config).of_topics(each, same)[:, 0].mean()) for each in rankings)


def losses(name: str, policy: str, loses: str, rates: Sequence[float] = RATES) -> dict[float, tuple[float, float]]:
    """By failure rate, where the answers are worse than the first stage: its nDCG@10 and theirs."""
    found = {rate: qualities(name, policy, rate, loses) for rate in rates}
    # Where a few of a query's documents have scores, their order among themselves is better or worse by chance.
    chance = 0.002 if loses == "documents" else 0.0
    return {rate: (first, end) for rate, (first, _, end) in found.items() if end < first - chance}


@pytest.mark.parametrize("loses", ["batches", "documents"])
@pytest.mark.parametrize("policy", POLICIES)
def test_no_share_of_failures_makes_an_answer_worse_than_the_first_stage(policy: str, loses: str) -> None:
    assert losses("demo", policy, loses) == {}


@pytest.mark.shared
@pytest.mark.skipif(not DATA.is_dir(), reason="the collections beside the checkout (../shared/data) are absent")
@pytest.mark.parametrize(
    ("name", "policy", "loses"),
    [
        ("dl19", "uncertainty", "batches"), ("dl19", "one_shot", "documents"), ("nfcorpus", "uncertainty", "documents"),
        ("nfcorpus", "one_shot", "batches"),
    ],
)  # fmt: skip
def test_nor_on_the_collections_beside_the_checkout(name: str, policy: str, loses: str) -> None:
    assert losses(name, policy, loses, rates=(0.3, 0.7)) == {}


@pytest.mark.parametrize(("policy", "third", "half"), [("one_shot", 0.69, 0.65), ("uncertainty", 0.75, 0.68)])
def test_what_is_left_where_a_third_or_half_of_the_batches_fail(policy: str, third: float, half: float) -> None:
    assert qualities("demo", policy, 0.3)[2] > third
    assert qualities("demo", policy, 0.5)[2] > half


def test_where_all_batches_fail_the_order_is_the_one_before_the_first_batch() -> None:
    _, before, after = qualities("demo", "uncertainty", 1.0)
    assert after == before


def test_lost_documents_leave_the_answer_only_where_that_is_asked_for() -> None:
    config = compose([*COLLECTIONS["demo"], *POLICIES["uncertainty"], "tracking=none", "failures.keep_unscored=false"])
    session = flaky_session(config, build_session(config), 0.5)
    query_id = session.dataset.judged[0]
    output = session.controller.run(session.dataset.queries[query_id], query_id=query_id)
    assert output.dropped
    assert not output.dropped.keys() & set(output.ranking)
