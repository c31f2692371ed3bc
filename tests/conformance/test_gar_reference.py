"""Our GAR takes the documents that its authors' implementation takes, in the same batches and order."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ragtune import Corpus, CostBudget, Document, ScoredDocument
from ragtune.core.component import RerankerFacts
from ragtune.core.pool.ordering import Ordering
from ragtune.core.request.context import Request
from ragtune.data.graph import CorpusGraph
from ragtune.estimators.graph.gar import GAREstimator
from ragtune.expanders.corpus_graph import CorpusGraphExpander
from ragtune.reformulators.identity import IdentityReformulator
from ragtune.schedulers.greedy import GreedyScheduler

PLENTY = 10**6


class Recorder:
    """The reference's scorer: scores from a table, and every batch that it was asked for."""

    def __init__(self, scores: Mapping[str, float]) -> None:
        self.scores = scores
        self.batches: list[list[str]] = []

    def __call__(self, batch: pd.DataFrame) -> pd.DataFrame:
        self.batches.append(list(batch.docno))
        return batch.assign(score=[self.scores[doc_id] for doc_id in batch.docno])


class Within:
    """A graph without the edges that leave a pool."""

    def __init__(self, graph: CorpusGraph, pool: Sequence[str]) -> None:
        self._graph, self._pool = graph, set(pool)

    def neighbours(self, doc_id: str) -> list[str]:
        return [other for other in self._graph.neighbours(doc_id) if other in self._pool]


def of_reference(
    pool: Sequence[str], first: Mapping[str, float], graph: Any, scores: Mapping[str, float], b: int, c: int
) -> tuple[list[list[str]], list[str]]:
    """The batches of the authors' GAR, and the documents that it has scored in its final order."""
    scorer = Recorder(scores)
    frame = pd.DataFrame({"qid": "q", "query": "q", "docno": pool, "score": [first[d] for d in pool]})
    frame["rank"] = range(len(pool))
    order = reference(scorer, graph, num_results=c, batch_size=b).transform(frame).docno
    return scorer.batches, list(order)[: sum(map(len, scorer.batches))]


def reference(*given: Any, **options: Any) -> Any:
    """The authors' GAR, imported here: it brings PyTorch into each process that collects tests."""
    from pyterrier_adaptive import GAR

    return GAR(*given, **options)


def our_batches(output: Any) -> list[list[str]]:
    return [event.details["doc_ids"] for event in output.trace.find("propose")]


def make_recorded(fakes: Any, scores: Mapping[str, float]) -> Any:
    """A reranker whose scores are known, so that budgets share what they agree on."""

    class Recorded(fakes.Reranker):
        facts = RerankerFacts(is_recorded=True)

        def rerank(self, items: Any, context: Any, strategy: str) -> dict[str, float]:
            return {item.doc_id: scores[item.doc_id] for item in items}

    return Recorded()


def nobody(corpus: Corpus) -> Any:
    raise AssertionError("a graph is given, so nobody needs the texts")


@pytest.mark.parametrize("expanding", [False, True], ids=["inside the pool", "expanding"])
@pytest.mark.parametrize("seed", range(15))
def test_same_documents_in_the_same_batches_under_every_budget_on_random_graphs(
    fakes: Any, make_graph: Callable[..., str], tmp_path: Path, seed: int, expanding: bool
) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 60))
    corpus = Corpus(Document(id=f"d{i:02d}", text=f"text {i}") for i in rng.permutation(n))
    k = int(rng.integers(1, min(8, n)))
    edges = {}
    for doc_id in corpus.doc_ids:
        others = [other for other in rng.permutation(corpus.doc_ids).tolist() if other != doc_id]
        count = int(rng.integers(0, k + 1))
        edges[doc_id] = dict.fromkeys(others[:count], 0.5)
    # Few distinct scores, so that every rule for ties is needed.
    scores = dict(zip(corpus.doc_ids, (rng.integers(0, rng.integers(1, 12), n) / 12).tolist(), strict=True))
    pool = rng.permutation(corpus.doc_ids)[: int(rng.integers(1, n + 1))].tolist()
    first = dict(zip(pool, np.sort(rng.integers(0, 20, len(pool)).astype(float))[::-1].tolist(), strict=True))
    b, limits = int(rng.integers(1, 8)), [PLENTY, *sorted({*rng.integers(1, n + 3, 6).tolist()})]

    folder = make_graph(tmp_path / "graph", corpus, edges, k)
    reranker = make_recorded(fakes, scores)
    controller = fakes.controller(
        documents=[ScoredDocument(id=d, score=first[d], content="x") for d in pool],
        reformulator=IdentityReformulator(),
        estimator=GAREstimator(corpus, nobody, k=k, graph=folder),
        scheduler=GreedyScheduler(batch_size=b),
        reranker=reranker,
        assembler=fakes.Assembler(Ordering.RERANKED_FIRST),
        expander=CorpusGraphExpander(corpus, folder, reranker, k=k, top=None) if expanding else None,
    )
    outputs = controller.run_under(Request("q"), [CostBudget.only(max_reranker_docs=c) for c in limits])

    graph = CorpusGraph.open(folder, corpus)
    reachable = graph if expanding else Within(graph, pool)
    for c, output in zip(limits, outputs, strict=True):
        batches, order = of_reference(pool, first, reachable, scores, b, c)
        assert our_batches(output) == batches, c
        ours = output.ranking[: len(order)]  # ties are broken by other rules
        assert (set(ours), [scores[d] for d in ours]) == (set(order), [scores[d] for d in order]), c
