"""A run says so where its sources seem to know better than its reranker or say nothing, and only there."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from experiments.evaluate.outcomes import (
    Outcomes,
    QueryOutcome,
    breakdowns,
    doubts,
    short_budgets,
    silences,
    starved,
    unused,
    warnings_of,
)
from experiments.evaluate.rankings import together
from experiments.evaluate.record import UNITS, QueryRecord, notes_of
from ragtune.core.loop import FIRST_ROUND
from ragtune.core.request.trace import ControllerTrace
from ragtune.estimators.posterior.uncertainty import MARGINS
from ragtune.rerankers.scale import SCALE_DOUBT
from ragtune.retrievers.signalled import SILENT_SIGNAL


def _record(margins: Mapping[str, float]) -> QueryRecord:
    """A query whose estimator spoke twice: before there was anything to compare, and after the last score."""
    trace = ControllerTrace(query_id="q")
    trace.add("estimator", "value", scored=0)
    trace.add("estimator", "value", scored=9, **({MARGINS: dict(margins)} if margins else {}))
    return _of(trace)


def _of(trace: ControllerTrace) -> QueryRecord:
    empty: dict[str, str] = {}
    free, stop = [0.0] * len(UNITS), {"reason": "pool_exhausted"}
    return QueryRecord(
        "q", ["d"], [[0]], [free], free, stop, {}, empty, 0, 0, trace.model_dump_json(), notes=notes_of(trace)
    )


def _outcomes(records: Sequence[QueryRecord]) -> Outcomes:
    return Outcomes(QueryOutcome.of(replace(record, query_id=f"q{i}")) for i, record in enumerate(records))


def _records(mean: float, queries: int = 40) -> list[QueryRecord]:
    draws = np.random.default_rng(1).normal(size=(queries, 2))
    return [_record({"bm25": 0.2 * weak - 0.3, "dense": 0.2 * strong + mean}) for weak, strong in draws]


def test_a_source_that_agrees_better_with_the_others_than_the_reranker_does_is_named_with_its_queries() -> None:
    found = doubts(_outcomes(_records(0.15)))
    assert len(found) == 1
    words, count = next(iter(found.items()))
    assert "'dense'" in words
    assert "p < .001" in words
    assert "estimator.trust" in words
    assert 20 < count < 40


def test_chance_a_better_reranker_and_a_single_source_raise_no_doubt() -> None:
    no_doubt = [_records(0.0), _records(0.15, queries=4), _records(-0.2), [_record({}) for _ in range(9)], []]
    assert [doubts(_outcomes(records)) for records in no_doubt] == [{}] * 5


def test_silent_signals_are_named_with_the_number_of_their_queries_however_many_rounds_they_were_silent_in() -> None:
    silent, loud = ControllerTrace(query_id="q"), ControllerTrace(query_id="q")
    for _ in range(2):
        silent.add("retriever", SILENT_SIGNAL, signal="clicks")
    loud.add("controller", "retrieve", query=f'what is a "{SILENT_SIGNAL}"?')
    ((words, count),) = silences(_outcomes([_of(silent), _of(loud), _of(silent)])).items()
    assert "'clicks'" in words
    assert count == 2


def test_what_requests_went_on_without_is_told_with_the_first_error() -> None:
    broken, whole = ControllerTrace(query_id="q"), ControllerTrace(query_id="r")
    for error in ("RuntimeError: no graph", "RuntimeError: none either"):
        broken.add("expander", "expansion_failed", error=error)
    whole.add("expander", "expand", doc_ids=["a_failed"])
    found = breakdowns(_outcomes([_of(whole), _of(broken), _of(broken)]))
    assert found == {"queries with expansion_failed in their traces, first: RuntimeError: no graph": 2}


def test_a_budget_that_is_too_small_is_told_with_the_smallest_one_that_is_enough_for_all_queries() -> None:
    traces = [ControllerTrace(query_id="q") for _ in range(3)]
    for trace, documents, calls in zip(traces, (90, 100), (6, 5), strict=False):
        trace.add("controller", FIRST_ROUND, documents=documents, calls=calls)
    ((words, count),) = short_budgets(_outcomes([_of(trace) for trace in traces])).items()
    assert words.endswith("the smallest useful budget is 100 documents in 6 calls: budget=100")
    assert count == 2
    assert short_budgets(_outcomes([_of(traces[2])])) == {}


def test_a_doubt_about_the_scale_of_a_live_reranker_is_told_in_the_summary() -> None:
    traces = [ControllerTrace(query_id="q") for _ in range(3)]
    traces[1].add("reranker", SCALE_DOUBT, warning="scale=logit: in [0, 1]")
    outcomes = _outcomes([_of(trace) for trace in traces])
    assert warnings_of(outcomes, compares_apart=False)["scale=logit: in [0, 1]"] == 1


def test_scores_that_no_ranking_shows_are_told_of_only_where_that_is_so_of_all_queries() -> None:
    paid = [2.0, *[0.0] * (len(UNITS) - 1)]
    free, moved, unmoved = (
        replace(_record({}), doc_ids=["a", "b"], rankings=together(orders, 2), costs=[[0.0] * len(UNITS), spent])
        for orders, spent in (
            ([np.array([0, 1])] * 2, [0.0] * len(UNITS)),
            ([np.array([0, 1]), np.array([1, 0])], paid),
            ([np.array([0, 1])] * 2, paid),
        )
    )
    assert list(unused(_outcomes([free, unmoved, unmoved])).values()) == [2]
    assert unused(_outcomes([free, moved, unmoved])) == unused(_outcomes([free])) == {}
    assert unused(_outcomes([replace(unmoved, dropped={"a": "lost", "b": "lost"})])) == {}
    failing = replace(unmoved, batches={"sent": 2, "failed": 1, "first_error": "down"})
    assert unused(_outcomes([failing, failing])) == {}
    assert list(unused(_outcomes([failing, unmoved])).values()) == [1]


@pytest.mark.parametrize(
    ("reason", "amounts", "remaining", "named"),
    [
        ("token_limit_exceeded", (83, 125, 75), 1, "125 tokens: budget=250tokens, half of which is kept"),
        ("cost_limit_exceeded", (0.0025, 0.002, 0.002), 0.001, "0.0025 dollars: budget=0.0025usd"),
        ("token_limit_exceeded", (83, 125, 75), 0, None),
    ],
)
def test_a_budget_in_which_not_one_document_fits_is_told_with_the_smallest_useful_amount(
    reason: str, amounts: Sequence[float], remaining: float, named: str | None
) -> None:
    short = [{"reason": reason, "requested": amount, "remaining": remaining} for amount in amounts]
    stops = [{"reason": "budget_exhausted", "source": "scheduler", "details": details} for details in short]
    unpaid = [replace(_record({}), stop=stop) for stop in stops]
    paid = replace(unpaid[0], costs=[[0.0] * len(UNITS), [1.0, *[0.0] * (len(UNITS) - 1)]])
    outcomes = _outcomes([*unpaid, paid, _record({})])
    found = starved(outcomes)
    assert found.items() <= warnings_of(outcomes, compares_apart=False).items()
    if named is None:
        assert found == {}
    else:
        ((words, count),) = found.items()
        assert words.startswith(f"queries in which not one document fits into the budget; it takes {named}")
        assert count == 3


@pytest.mark.parametrize(("apart", "found"), [(True, [2]), (False, [])])
def test_several_batches_are_told_of_where_documents_are_compared_in_batches_that_share_none(
    apart: bool, found: list[int]
) -> None:
    counts = [(0, 0), (1, 0), (2, 0), (3, 0), (3, 2), (4, 4)]
    records = [replace(_record({}), batches={"sent": n, "failed": bad, "first_error": None}) for n, bad in counts]
    assert list(warnings_of(_outcomes(records), compares_apart=apart).values()) == found
