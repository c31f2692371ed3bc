"""What a study recommends: by the rule, in words, the same from its table and from its CSV file."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.report.recommendation import recommendation
from experiments.report.study import Cell, Study, StudyCollection, StudyPolicy
from experiments.report.tables import cells_table
from ragtune.core.units import UNITS

RESULTS = Path(__file__).parents[4] / "results"


def study_of(cells: dict[tuple[str, str], Cell], policies: dict[str, str], columns: list[str]) -> Study:
    one = StudyCollection("a", [str(i) for i in range(40)], cells, {}, np.ones(1), 0.01)
    named = [
        StudyPolicy(name, label, "baseline" if name.startswith("fixed") else "ours") for name, label in policies.items()
    ]
    rest = (columns, ["nDCG@10"], "all", 300, 300, 0.95, 0)
    return Study("t", "c", "abc", [one], named, named[0].name, *rest, is_grid=columns != ["final"])


def cell(values: np.ndarray, docs: int) -> Cell:
    charged = np.zeros((40, len(UNITS)))
    charged[:, :2] = docs, 1
    return Cell(values[:, None], charged, ["end"] * 40)


@pytest.mark.parametrize(("loss", "kept"), [(0.0, "ours"), (0.3, "fixed")])
def test_compared_runs_and_a_grid_of_the_same_results_get_the_same_recommendation(loss: float, kept: str) -> None:
    """The grid's cells as runs, the dearest of the baseline first: both find it or neither does."""
    draws = np.random.default_rng(0)
    full = draws.beta(4, 2, size=40)
    values = {("fixed", 20): full - 0.2, ("fixed", 100): full, ("ours", 20): full - loss, ("ours", 100): full - loss}
    values = {key: value + draws.normal(0, 0.02, 40) * (key != ("fixed", 100)) for key, value in values.items()}
    cells = {key: cell(value, key[1]) for key, value in values.items()}
    grid = study_of(
        {(name, str(docs)): c for (name, docs), c in cells.items()},
        dict.fromkeys(("fixed", "ours"), "x"),
        ["20", "100"],
    )
    order = sorted(cells, key=lambda key: key != ("fixed", 100))
    runs = {f"{name}-{docs}": (name, docs) for name, docs in order}
    compared = study_of({(run, "final"): cells[key] for run, key in runs.items()}, dict.fromkeys(runs, "x"), ["final"])
    of_grid, of_runs = (recommendation(cells_table(study), "nDCG@10") for study in (grid, compared))
    assert (of_grid.policy, int(of_grid.column)) == runs[of_runs.policy] == (kept, 20 if kept == "ours" else 100)
    assert of_grid.rule == of_runs.rule
    assert of_runs.title.startswith(
        "Use x: as good as x, for 20.0 instead of 100.0 documents" if not loss else "Keep x"
    )


def test_of_the_baseline_alone_its_one_cell_is_kept() -> None:
    alone = study_of({("fixed", "5"): cell(np.full(40, 0.5), 5)}, {"fixed": "x"}, ["5"])
    told = recommendation(cells_table(alone), "nDCG@10")
    assert (told.policy, told.column, told.evidence) == ("fixed", "5", ())


def test_the_committed_tables_begin_with_what_the_code_makes_of_the_committed_figures() -> None:
    for page in (RESULTS / "frontier").glob("*/frontier.md"):
        [file] = page.parent.glob("frontier.csv*")
        cells = pd.read_csv(file)
        if "full_diff" in cells:
            told, text = recommendation(cells, "nDCG@10"), page.read_text(encoding="utf-8")
            assert all(sentence in text for sentence in (told.title, told.summary, *told.evidence, told.rule))
