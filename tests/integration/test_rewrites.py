"""What rewrites may cost: rule R2, in nDCG@10, on the shipped collection and on nfcorpus."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from experiments.config.compose import compose
from experiments.replay.build import build_session, load_dataset, load_measures
from ragtune import Corpus, CostBudget, RAGtuneController, RetrievalDepths, ScoredDocument
from ragtune.core.interfaces import BaseReformulator, BaseReranker, BaseRetriever
from ragtune.core.request.context import ORIGINAL, RAGtuneContext
from ragtune.reformulators.identity import IdentityReformulator
from ragtune.reformulators.rm3 import RM3Reformulator
from ragtune.retrievers.bm25 import BM25Retriever

NFCORPUS = Path(__file__).parents[3] / "shared" / "data" / "nfcorpus"

PASSAGE = (
    "{query} is a question that many people ask, and there are several answers that experts give. In general it "
    "depends on the circumstances, the amount, the temperature and the time, and on how the material was prepared and "
    "stored before. A common recommendation is to begin slowly, check the result after a few days, and make changes "
    "one step at a time. Studies have reported that {query} often has more than one cause, and that simple measures "
    "help in most cases."
)
"""What a language model that knows little writes for HyDE: twice the query, and 70 words that many documents hold."""


class Passage(BaseReformulator):
    """One rewrite: what ``write`` makes of query id, query and first round."""

    def __init__(self, write: Callable[[str, str, Sequence[ScoredDocument]], str]) -> None:
        self._write = write

    def generate(self, context: RAGtuneContext, first_round: Sequence[ScoredDocument]) -> list[str]:
        return [self._write(context.query_id, context.query, first_round)]


def off_topic(corpus: Corpus, qrels: Mapping[str, Mapping[str, int]], query_id: str) -> str:
    """The first 80 words of a document that is relevant to the query half way round, and not to this one."""
    topics = list(qrels)
    half = topics.index(query_id) + len(topics) // 2
    for other in (topics[(half + i) % len(topics)] for i in range(len(topics))):
        best = max(qrels[other], key=lambda doc_id: (qrels[other][doc_id], doc_id))
        if not qrels[query_id].get(best):
            return " ".join(corpus[best].content.split()[:80])
    raise AssertionError("every topic has the same relevant document")


class InTable(BaseRetriever):
    """BM25, of which the original query keeps what the score table holds; rewrites are searched freely."""

    def __init__(self, corpus: Corpus, reranker: BaseReranker) -> None:
        self._bm25, self._reranker = BM25Retriever(corpus), reranker

    def retrieve(self, context: RAGtuneContext, top_k: int) -> list[ScoredDocument]:
        found = self._bm25.retrieve(context, top_k)
        if context.round != "original":
            return found
        return [doc for doc in found if self._reranker.facts.can_score(doc.id, context)]


class Trial:
    """Mean nDCG@10 of a policy with a kind of rewrites on every ``every``-th judged query of a collection."""

    def __init__(self, overrides: Sequence[str], every: int = 1) -> None:
        self._overrides = overrides
        config = compose(overrides)
        dataset, self._measures = load_dataset(config), load_measures(config)
        self._queries = {q: dataset.queries[q] for q in dataset.judged[::every]}
        reranker = build_session(config).rerankers["default"]
        self._retriever = InTable(dataset.corpus, reranker)
        judged = {q: dataset.qrels[q] for q in self._queries}
        self._reformulators = {
            "none": IdentityReformulator(),
            "rm3": RM3Reformulator(dataset.corpus),
            "hyde": Passage(lambda q, query, found: PASSAGE.format(query=query.rstrip("?."))),
            "off-topic": Passage(lambda q, query, found: off_topic(dataset.corpus, judged, q)),
        }

    def losses(self, policy: Sequence[str], docs: int, plan: RetrievalDepths) -> dict[str, float]:
        """By kind of rewrite: how much lower nDCG@10 is than without."""
        session = build_session(compose([*self._overrides, *policy]))
        budget = CostBudget.only(max_reranker_docs=docs)
        parts = {**session.parts, "retriever": self._retriever, "budget": budget, "reranker": session.rerankers}

        def quality(kind: str) -> float:
            controller = RAGtuneController(**{**parts, "reformulator": self._reformulators[kind]}, plan=plan)
            rankings = {q: list(controller.run(text, query_id=q).ranking) for q, text in self._queries.items()}
            return float(self._measures.of_topics(rankings, {q: q for q in self._queries})[:, 0].mean())

        without = quality("none")
        return {kind: without - quality(kind) for kind in ALLOWED}


POLICIES = {
    "fixed depth": ["experiment=fixed_depth"],
    "similarity": ["experiment=similarity"],
    "ore": ["experiment=ore"],
    "uncertainty": ["experiment=uncertainty"],
}
PLAN = RetrievalDepths(**compose([])["retrieval"])
"""The depths that a run has by default."""

ALLOWED = {"rm3": 0.01, "hyde": 0.01, "off-topic": 0.03}


def excesses(losses: Mapping[str, float]) -> dict[str, float]:
    return {kind: loss for kind, loss in losses.items() if loss > ALLOWED[kind]}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    return Trial(["dataset=demo", "tracking=none"])


def test_rewrites_find_new_documents_at_the_default_depths_and_no_rewrite_changes_the_first_stage() -> None:
    session = build_session(compose(["reformulator=rm3", "tracking=none"]))
    found = {ORIGINAL: 0, "rewrite_0": 0}
    for query_id, text in session.dataset.queries.items():
        trace = session.controller.run(text, CostBudget.only(max_reranker_docs=0), query_id=query_id).trace
        for event in trace.find("retrieve"):
            found[event.details["round"]] += event.details.get("new", event.details["found"])
        (pool,) = trace.find("pool")
        assert pool.details["size"] == sum(e.details.get("new", e.details["found"]) for e in trace.find("retrieve"))
    queries = len(session.dataset.queries)
    assert found[ORIGINAL] / queries == pytest.approx(66.2, abs=0.1)  # as without a reformulator
    assert found["rewrite_0"] / queries > 5.0


# Rewrites find more documents than may be reranked, so that they could fill the batches.
@pytest.mark.parametrize("policy", POLICIES)
def test_no_rewrite_costs_a_policy_more_than_a_hundredth_nor_an_off_topic_one_more_than_three(
    demo: Trial, policy: str
) -> None:
    assert excesses(demo.losses(POLICIES[policy], 10, PLAN)) == {}


@pytest.mark.shared
@pytest.mark.skipif(not NFCORPUS.is_dir(), reason="nfcorpus is not beside the checkout (../shared)")
@pytest.mark.parametrize("policy", ["fixed depth", "uncertainty"])
def test_nor_on_nfcorpus_where_the_table_lacks_most_of_what_rewrites_find(nfcorpus: Trial, policy: str) -> None:
    assert excesses(nfcorpus.losses(POLICIES[policy], 20, PLAN)) == {}


@pytest.fixture(scope="module")
def nfcorpus() -> Trial:
    scores = [f"reranker.scores={NFCORPUS / 'scores' / 'ce.run'}", "reranker.scale=identity"]
    return Trial(["dataset=beir", f"dataset.path={NFCORPUS}", *scores, "tracking=none"], every=6)
