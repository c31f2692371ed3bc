"""The ReRanker and its rerank stages."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from ragtune.core.component import RerankerFacts
from ragtune.core.errors import StageError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import CostMeter, RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.superprompt import Pipeline, PipelineConfig, SuperPrompt
from ragtune.superprompt.memory.documents import DocumentMemory, TermIndex
from ragtune.superprompt.options import load_options
from ragtune.superprompt.parts import make_pipeline as pipeline_of
from ragtune.superprompt.rendering import rerank_query
from ragtune.superprompt.stages.reranker import (
    CROSS_ENCODER,
    BaseRerankStage,
    BudgetedRerankStage,
    LatentRerankStage,
    Reranked,
    TopRerankStage,
)

Make = Callable[..., Pipeline]
Reach = Callable[..., SuperPrompt]


class Scripted(BaseReranker):
    """Given scores by text; unlisted texts are left out."""

    facts = RerankerFacts(is_recorded=True)

    def __init__(self, score: Callable[[PoolItem], float | None]) -> None:
        self.score = score
        self.seen: list[tuple[str, list[str]]] = []

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        self.seen.append((context.query, [item.doc_id for item in items]))
        scores = {item.doc_id: self.score(item) for item in items}
        return {doc_id: score for doc_id, score in scores.items() if score is not None}


def test_the_query_is_task_purpose_context_and_format_and_nothing_else() -> None:
    body = {"system": "S", "task": "T", "purpose": "P", "context": "C", "format": "F", "tone": "no"}
    assert rerank_query(body) == "T\nP\nC\nF"


def test_candidates_are_sorted_by_score_and_ties_keep_their_order(make_pipeline: Make, reach: Reach) -> None:
    before = reach("retrieval").views_by_stage["retrieval"]
    reranker = Scripted(lambda item: 0.9 if item.doc_id == before[-1] else 0.5)
    sp = reach("reranked", make_pipeline(rerank_stage=TopRerankStage(reranker)))
    assert sp.views_by_stage["reranked"] == [before[-1], *before[:-1]]
    assert reranker.seen == [(rerank_query(sp.body), before)]
    assert sp.extras["reranked"]["scores"][before[-1]] == 0.9
    assert sp.final_selection_ids == []
    charged = sp.extras["costs"][-1]["charged"]
    assert (charged["docs"], charged["calls"]) == (len(before), 1)


def test_no_more_than_n2_candidates_reach_the_reranker(make_pipeline: Make, reach: Reach) -> None:
    reranker = Scripted(lambda item: 0.5)
    config = PipelineConfig.load(n2_rerank_top_k=2)
    for stage in (TopRerankStage(reranker), BudgetedRerankStage(reranker, 50)):
        sp = reach("reranked", make_pipeline(config, rerank_stage=stage))
        assert sp.views_by_stage["reranked"] == sp.views_by_stage["retrieval"][:2]
    assert max(len(ids) for _, ids in reranker.seen) <= 2


def test_what_could_not_be_scored_comes_last_in_its_old_order(make_pipeline: Make, reach: Reach) -> None:
    before = reach("retrieval").views_by_stage["retrieval"]
    reranker = Scripted(lambda item: None if item.doc_id in before[:2] else 0.1)
    after = reach("reranked", make_pipeline(rerank_stage=TopRerankStage(reranker))).views_by_stage["reranked"]
    assert after == [*before[2:], *before[:2]]


def test_the_budgeted_controller_scores_what_its_budget_allows(make_pipeline: Make, reach: Reach) -> None:
    reranker = Scripted(lambda item: 0.9)
    sp = reach("reranked", make_pipeline(rerank_stage=BudgetedRerankStage(reranker, 2)))
    assert sorted(sp.views_by_stage["reranked"]) == sorted(sp.views_by_stage["retrieval"])
    assert len(sp.extras["reranked"]["scores"]) == sum(len(ids) for _, ids in reranker.seen) == 2
    assert sp.extras["reranked"]["stop"]["reason"] == "budget_exhausted"
    assert sp.extras["costs"][-1]["charged"]["docs"] == 2


class Losing(BaseRerankStage):
    def order(self, body: Mapping[str, str], candidates: Sequence[ScoredDocument], meter: CostMeter) -> Reranked:
        return Reranked([doc.id for doc in candidates[1:]], {})


def test_a_rerank_stage_that_loses_candidates_is_refused(make_pipeline: Make, reach: Reach) -> None:
    with pytest.raises(StageError, match="Losing returned other candidates"):
        reach("reranked", make_pipeline(rerank_stage=Losing()))


def test_the_model_of_the_spec_is_the_default_and_loads_only_when_it_is_used() -> None:
    assert CROSS_ENCODER == "cross-encoder/ms-marco-MiniLM-L-6-v2"
    assert TopRerankStage.cross_encoder(cache_dir=None).reranker.model == CROSS_ENCODER  # type: ignore[attr-defined]


TEXTS = {
    "answer": "El pan pesado y denso no ha fermentado lo suficiente.",
    "stranger": "Por qué está el cielo tan azul: mi ojo ve la luz que el aire dispersa.",
    "german": "Dichtes Brot: Ein schweres, dichtes Brot hat meistens zu kurz gegärt.",
}


def test_function_words_of_other_languages_attach_nothing() -> None:
    options = load_options(None, {"reranker": {"model": "nowhere"}})
    pipeline = pipeline_of(options, DocumentMemory.from_texts(TEXTS, options.chunking))
    done = pipeline.run_all(SuperPrompt.raw("¿Por qué está mi pan tan denso?"))
    assert done.final_selection_ids == ["answer#0"]
    assert not [notice for notice in done.extras.get("notices", []) if notice["stage"] != "ReRanker"]


def test_the_order_of_documents_decides_no_score_where_singular_values_are_equal() -> None:
    texts = ["gummy crumb cut hot", "dense rye baked old", "ships sail sea wide"]
    documents = [ScoredDocument(id=text, content=text, score=0.5) for text in texts]
    orders = (texts, texts[::-1], [texts[1], texts[0], texts[2]])
    stages = [LatentRerankStage(TermIndex(order)) for order in orders]
    scores = [stage.order({"task": "Why is the rye crumb dense?"}, documents, CostMeter()).scores for stage in stages]
    assert scores[0] == scores[1] == scores[2]
