from __future__ import annotations

import math

import numpy as np
import pytest

from ragtune import CostBudget, ScoredDocument
from ragtune.core.errors import ConfigError
from ragtune.schedulers.score_cutoff import ScoreCutoffScheduler


def documents(scores) -> list[ScoredDocument]:
    return [ScoredDocument(id=f"d{i:02d}", score=s, content="x") for i, s in enumerate(scores)]


def run(fakes, scores, expander=None, budget=None, **arguments):
    defaults = {"min_docs": 0, "batch_size": 2, "intercept": 0.0, "slope": 1.0, "threshold": 0.5}
    return fakes.controller(
        documents=documents(scores),
        scheduler=ScoreCutoffScheduler(**(defaults | arguments)),
        expander=expander,
        budget=budget or CostBudget.unlimited(),
    ).run("q")


def depth(output) -> int:
    return output.final_budget_state["rerank_docs"]


def test_the_depth_is_the_number_of_documents_above_the_cut(fakes):
    # sigmoid(z) >= .5 means: above the mean, which is 4.
    output = run(fakes, [10.0, 9.0, 5.0, 3.0, 2.0, 1.0, 1.0, 1.0])
    assert depth(output) == 3
    assert output.stop.reason == "below_score_cut"


def test_the_stop_record_says_why(fakes):
    scores = [10.0, 9.0, 5.0, 3.0, 2.0, 1.0, 1.0, 1.0]
    details = run(fakes, scores, min_docs=4).stop.details
    z = (2.0 - np.mean(scores)) / np.std(scores)
    assert (details["depth"], details["above_threshold"], details["threshold"]) == (4, 3, 0.5)
    assert details["next_probability"] == pytest.approx(1 / (1 + math.exp(-z)), abs=1e-6)


def test_a_flat_list_is_read_deeper_than_a_steep_one(fakes):
    steep = [100.0, *np.linspace(2, 1, 19)]
    flat = [*np.linspace(20, 18, 12), *np.linspace(5, 1, 8)]
    assert depth(run(fakes, steep)) == 1
    assert depth(run(fakes, flat)) == 12


def test_the_scale_of_the_first_stage_does_not_matter(fakes):
    scores = np.linspace(10, 1, 15) ** 2
    assert depth(run(fakes, scores)) == depth(run(fakes, 1000 * scores - 7))


def test_depth_stays_between_its_limits(fakes):
    scores = np.linspace(10, 1, 20)
    assert depth(run(fakes, scores)) == 10
    assert depth(run(fakes, scores, min_docs=13)) == 13
    assert depth(run(fakes, scores, max_docs=3)) == 3
    assert depth(run(fakes, scores, budget=CostBudget.only(max_reranker_docs=5))) == 5


@pytest.mark.parametrize(("intercept", "expected"), [(5.0, 6), (-5.0, 0)])
def test_equal_scores_are_all_kept_or_all_cut(fakes, intercept, expected):
    assert depth(run(fakes, [3.0] * 6, intercept=intercept)) == expected


def test_a_pool_that_is_wholly_promising_is_drained(fakes):
    assert run(fakes, [3.0, 2.0, 1.0], threshold=0.0).stop.reason == "pool_exhausted"


def test_rerank_scores_and_discoveries_do_not_move_the_cut(fakes):
    found = iter([[ScoredDocument(id=f"new{i}", score=0.9) for i in range(30)]])
    expander = fakes.Expander(lambda pool, limit: next(found, []))
    assert depth(run(fakes, np.linspace(10, 1, 20), expander=expander)) == 10


def test_extreme_arguments_stay_finite(fakes):
    output = run(fakes, [1e12, -1e12, 0.0], slope=1e6, intercept=-1e6)
    assert output.stop.reason == "below_score_cut"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"threshold": 1.1}, "threshold=1.1"),
        ({"slope": -0.1}, "slope=-0.1"),
        ({"intercept": float("nan")}, "intercept=nan"),
        ({"min_docs": -1}, "min_docs=-1"),
        ({"min_docs": 10, "max_docs": 9}, "max_docs=9"),
        ({"batch_size": 0}, "batch_size=0"),
    ],
)
def test_bad_arguments_are_refused(arguments, named):
    with pytest.raises(ConfigError, match=named):
        ScoreCutoffScheduler(**arguments)
