"""Rerank stages asked about a test collection's documents."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pytest

from ragtune import CostBudget
from ragtune.core.request.context import CostMeter
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.schedulers.greedy import GreedyScheduler
from ragtune.superprompt import SuperPrompt
from ragtune.superprompt.memory.documents import DocumentMemory
from ragtune.superprompt.options import load_options
from ragtune.superprompt.parts import make_pipeline
from ragtune.superprompt.reranking import BudgetedRerankStage
from ragtune.superprompt.reranking import TopRerankStage


def budgeted(reranker: Any, scheduler: Any = None, **options: Any) -> BudgetedRerankStage:
    chosen = scheduler or GreedyScheduler(batch_size=2)
    return BudgetedRerankStage(BaselineEstimator(), chosen, reranker, CostBudget.unlimited(), **options)


LANGUAGES = {
    "german": (
        "Warum ist mein Brot so dicht?",
        "Dichtes Brot: Ein schweres, dichtes Brot hat meistens zu kurz gegärt.",
        "Warum der Himmel so blau ist: mein Licht wird in der Luft gestreut.",
    ),
    "french": (
        "Pourquoi mon pain est-il si dense ?",
        "Un pain lourd et dense n'a pas assez levé avant la cuisson.",
        "Pourquoi le ciel est si bleu : mon oeil voit la lumière que l'air disperse.",
    ),
    "spanish": (
        "¿Por qué está mi pan tan denso?",
        "El pan pesado y denso no ha fermentado lo suficiente.",
        "Por qué está el cielo tan azul: mi ojo ve la luz que el aire dispersa.",
    ),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_function_words_of_other_languages_attach_nothing(language: str) -> None:
    question, answer, stranger = LANGUAGES[language]
    others = {f"other-{n}": text for n, text in enumerate(text for _, *texts in LANGUAGES.values() for text in texts)}
    memory = DocumentMemory.from_texts({"answer": answer, "stranger": stranger, **others}, load_options().chunking)
    done = make_pipeline(load_options(), memory).run_all(SuperPrompt.raw(question))
    attached = {chunk.snippet for chunk in done.chunks(done.final_selection_ids)}
    assert answer in attached
    assert stranger not in attached
    assert not [notice for notice in done.extras["notices"] if notice["stage"] != "ReRanker"]


@pytest.mark.parametrize("make", [TopRerankStage, budgeted])
def test_the_querys_id_reaches_the_reranker(fakes: SimpleNamespace, make: Any) -> None:
    seen: list[str] = []
    reranker = fakes.Reranker(act=lambda context: seen.append(context.query_id))
    make(reranker).order("query", fakes.docs(3), CostMeter(), "q7")
    assert set(seen) == {"q7"}


def test_a_dead_reranker_is_given_up_for_the_prompts_to_come_until_a_new_run_begins(fakes: SimpleNamespace) -> None:
    reranker = fakes.Reranker(script=[ConnectionError("refused")] * 99)
    policy = budgeted(reranker)

    def sent(docs: int) -> int:
        reranked = policy.order("query", fakes.docs(docs), CostMeter())
        assert set(reranked.ids) == {doc.id for doc in fakes.docs(docs)}
        return reranked.output.batches.sent

    assert [sent(docs) for docs in (7, 8, 9, 10)] == [3, 3, 3, 0]
    policy.forget_failures()
    assert sent(7) == 3


def test_each_thread_orders_its_own_candidates(fakes: SimpleNamespace) -> None:
    both = Barrier(2)
    policy = budgeted(fakes.Reranker(act=lambda context: both.wait(30)))

    def ordered(prefix: str) -> list[str]:
        return policy.order(prefix, fakes.docs(2, prefix), CostMeter()).ids

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(ordered, "ab")) == [["a_001", "a_000"], ["b_001", "b_000"]]
