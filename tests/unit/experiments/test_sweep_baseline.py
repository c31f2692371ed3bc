"""What the jobs of a sweep are compared with."""

from __future__ import annotations

import pytest

from experiments.publish.sweep_baseline import check_baseline, references
from ragtune.core.errors import ConfigError

ESTIMATORS = ["estimator=baseline", "estimator=gar", "estimator=quam"]
ALONE = {str(number): [estimator] for number, estimator in enumerate(ESTIMATORS)}
GRID = {
    str(3 * i + j): [estimator, "budget=tight", f"budget.max_reranker_docs={docs}", "seed=1"]
    for i, docs in enumerate((5, 20))
    for j, estimator in enumerate(ESTIMATORS)
}


@pytest.mark.parametrize(
    ("baseline", "jobs", "compared"),
    [
        ("estimator=gar", ALONE, {"0": "1", "2": "1"}),
        ("2", ALONE, {"0": "2", "1": "2"}),
        ("estimator=gar", GRID, {"0": "1", "2": "1", "3": "4", "5": "4"}),  # each under its own budget
        ("budget=20 estimator=baseline", GRID, {"0": "3", "1": "3", "2": "3", "4": "3", "5": "3"}),
        ("budget.max_reranker_docs=5", GRID, {"3": "0", "4": "1", "5": "2"}),
    ],
)
def test_a_job_is_compared_with_the_one_that_is_like_it_but_for_what_names_the_baseline(
    baseline: str, jobs: dict[str, list[str]], compared: dict[str, str]
) -> None:
    assert references(baseline, jobs) == compared
    check_baseline(baseline, jobs)


@pytest.mark.parametrize("baseline", ["estimator=gat", "3", "budget=tight", "fixed_depth"])
def test_a_baseline_that_is_no_job_is_refused_with_the_jobs(baseline: str) -> None:
    with pytest.raises(
        ConfigError, match=r"no job of this sweep is that; allowed are 'fixed depth' .*1 \(estimator=gar\)"
    ):
        check_baseline(baseline, ALONE)


def test_a_baseline_that_leaves_a_job_without_one_is_refused() -> None:
    uneven = {**GRID, "6": ["estimator=quam", "seed=2"]}
    with pytest.raises(ConfigError, match=r"several jobs are that, .* job 6 \(estimator=quam seed=2\)"):
        check_baseline("estimator=gar", uneven)
    check_baseline("fixed depth", uneven)
    check_baseline("estimator=gar", {})  # a sweeper that chooses its jobs as it goes
