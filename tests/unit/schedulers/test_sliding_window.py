from __future__ import annotations

import pytest

from ragtune import CostBudget
from ragtune.core.errors import ConfigError
from ragtune.schedulers.sliding_window import SlidingWindowScheduler


def sizes(output) -> list[int]:
    return [len(event.details["doc_ids"]) for event in output.trace.find("propose")]


limits = CostBudget.only


def test_a_full_window_comes_first_and_then_one_step_a_call(fakes):
    output = fakes.controller(scheduler=SlidingWindowScheduler(window=8, step=4)).run("q")
    assert sizes(output) == [8, 4, 4, 4]
    assert output.final_budget_state["rerank_calls"] == 4


def test_every_document_is_charged_once(fakes):
    reranker = fakes.Reranker()
    output = fakes.controller(reranker=reranker, scheduler=SlidingWindowScheduler(window=8, step=3)).run("q")
    scored = [doc_id for batch in reranker.batches for doc_id in batch]
    assert len(scored) == len(set(scored)) == output.final_budget_state["rerank_docs"] == 20


def test_windows_go_down_the_list(fakes):
    reranker = fakes.Reranker()
    fakes.controller(reranker=reranker, scheduler=SlidingWindowScheduler(window=8, step=4)).run("q")
    assert [batch[0] for batch in reranker.batches] == ["doc_000", "doc_008", "doc_012", "doc_016"]


def test_calls_and_documents_are_limited_by_the_budget(fakes):
    scheduler = SlidingWindowScheduler(window=8, step=4)
    assert sizes(fakes.controller(scheduler=scheduler, budget=limits(max_reranker_calls=2)).run("q")) == [8, 4]
    assert sizes(fakes.controller(scheduler=scheduler, budget=limits(max_reranker_docs=10)).run("q")) == [8, 2]
    assert sizes(fakes.controller(scheduler=scheduler, budget=limits(max_reranker_docs=5)).run("q")) == [5]


def test_the_windows_are_those_of_rankgpt_in_number(fakes):
    # n documents, window w, step b: 1 + ceil((n - w) / b) calls (Sun et al. 2023).
    output = fakes.controller(documents=fakes.docs(100), scheduler=SlidingWindowScheduler()).run("q")
    assert len(sizes(output)) == 9


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"window": 0}, "window=0"),
        ({"step": 0}, "step=0"),
        ({"window": 5, "step": 6}, "step=6"),
        ({"step": 1.0}, "1.0"),
    ],
)
def test_bad_arguments_are_refused(arguments, named):
    with pytest.raises(ConfigError, match=named):
        SlidingWindowScheduler(**arguments)
