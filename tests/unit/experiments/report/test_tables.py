"""Tables and pages of a study made by hand, so that every figure in them is known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.publish.figures import styles_of
from experiments.publish.folders import require_writable
from experiments.report.markdown import markdown
from experiments.report.recommendation import recommendation
from experiments.report.report import html, write_study
from experiments.report.study import Cell, Line, Study, StudyCollection, StudyPolicy
from experiments.report.tables import cells_table, policies_table
from ragtune.core.errors import ConfigError
from ragtune.core.units import FLOPS, UNITS

POLICIES = [
    StudyPolicy("fixed", "fixed depth", "baseline"),
    StudyPolicy("ours", "ours <b>&</b>", "ours"),
    StudyPolicy("oracle", "oracle", "ceiling"),
]
QUALITY = {"fixed": [0.4, 0.6], "ours": [0.6, 0.7], "oracle": [0.9, 0.9]}


def cell(quality: float, docs: int, spread: np.ndarray) -> Cell:
    q = len(spread)
    values, charged = np.column_stack([quality + spread, np.full(q, 0.5)]), np.zeros((q, len(UNITS)))
    charged[:, :2] = docs, 1
    return Cell(values, charged, ["budget_exhausted"] * q)


@pytest.fixture
def study() -> Callable[..., Study]:
    """Two budgets, 20 queries; ours is .2 and .1 above fixed depth, with little noise."""

    def make(queries: int = 20, **changes: object) -> Study:
        noise = np.random.default_rng(0).normal(0, 0.02, size=(3, 2, queries))
        noise -= noise.mean(axis=2, keepdims=True)
        cells = {
            (p.name, str(b)): cell(QUALITY[p.name][j], b, noise[i, j] if queries > 1 else np.zeros(1))
            for i, p in enumerate(POLICIES)
            for j, b in enumerate((10, 20))
        }
        lines = {}
        for p in POLICIES:
            mean = np.array([cells[p.name, c].values.mean(axis=0) for c in ("10", "20")])
            spent, costs = np.array([10.0, 20.0]), np.zeros((2, len(UNITS)))
            lines[p.name] = Line(spent, spent, mean, mean - 0.1, mean + 0.1, costs)
        ids = [f"q{i}" for i in range(queries)]
        collection = StudyCollection("tiny set", ids, cells, lines, np.array([0.7, 0.5]), 40.0)
        fixed = {"name": "t", "command": "python x", "git_sha": "abc", "collections": [collection]}
        fixed |= {"policies": POLICIES, "reference": "fixed", "columns": ["10", "20"], "measures": ["nDCG@10", "R@100"]}
        fixed |= {"target_label": "all", "resamples": 100}
        return Study(**{**fixed, "permutations": 999, "level": 0.95, "seed": 0, **changes})  # type: ignore[arg-type]

    return make


def tables_page(study: Study) -> str:
    cells = cells_table(study)
    return markdown(study, cells, policies_table(study), recommendation(cells, "nDCG@10"))


def test_all_are_tested_against_every_baseline(study: Callable[..., Study]) -> None:
    """A second baseline gets columns of differences and a table of its own; the first stays the reference."""
    other = StudyPolicy("ours", "ours", "baseline")
    made = study(policies=[POLICIES[0], other, POLICIES[2]])
    rows = cells_table(made).set_index(["policy", "budget"])
    assert rows.loc[("oracle", "10"), "nDCG@10_vs_ours_diff"] == pytest.approx(0.3)
    assert rows.loc[("fixed", "20"), "nDCG@10_vs_ours_diff"] == pytest.approx(-0.1)
    assert rows.loc[("fixed", "20"), "nDCG@10_vs_ours_p_t_holm"] < 0.01
    assert np.isnan(rows.loc[("ours", "20"), "nDCG@10_vs_ours_p_t_holm"])
    assert "### nDCG@10 less that of ours at the same budget" in tables_page(made)
    assert "| fixed depth | -0.200▼ | -0.100▼ |" in tables_page(made)
    assert not any("_vs_" in column for column in cells_table(study()).columns)


def test_a_clear_gain_is_significant_in_both_tests_and_the_reference_has_no_test(study: Callable[..., Study]) -> None:
    rows = cells_table(study()).set_index(["policy", "budget"])
    ours, fixed = rows.loc[("ours", "10")], rows.loc[("fixed", "10")]
    assert ours["nDCG@10_diff"] == pytest.approx(0.2)
    assert ours["nDCG@10_diff_low"] <= 0.2 <= ours["nDCG@10_diff_high"]
    assert ours["nDCG@10_p_t_holm"] < 0.001
    assert ours["nDCG@10_p_randomization_holm"] <= 0.002
    assert ours["R@100_p_t_holm"] == 1.0
    assert np.isnan(fixed["nDCG@10_p_t_holm"])
    assert (ours["wins"], ours["losses"], ours["ties"]) == (20, 0, 0)
    assert json.loads(ours["stop_reasons"]) == {"budget_exhausted": 20}
    assert set(rows[rows["on_front"]].index.get_level_values("policy")) == {"ours"}, "ceilings stay off the front"


def test_holm_spans_budgets_of_a_policy_or_policies_of_a_column(study: Callable[..., Study]) -> None:
    for is_grid, key in ((True, "policy"), (False, "budget")):
        rows = cells_table(study(is_grid=is_grid))
        others = rows[rows["policy"] != "fixed"]
        for _, members in others.groupby(key):
            plain = sorted(members["nDCG@10_p_t"])
            assert members["nDCG@10_p_t_holm"].min() == pytest.approx(min(1.0, 2 * plain[0]))


def test_areas_and_costs_to_quality(study: Callable[..., Study]) -> None:
    rows = policies_table(study()).set_index("policy")
    assert rows.loc["ours", "area"] == pytest.approx(0.65)
    assert rows.loc["ours", "docs_to_95"] == pytest.approx(10 + 10 * (0.95 * 0.7 - 0.6) / 0.1)
    assert np.isnan(rows.loc["fixed", "docs_to_95"])
    assert bool(rows.loc["oracle", "docs_to_99_at_first"])


def test_the_page_of_tables_says_how_it_was_made_and_marks_what_is_significant(study: Callable[..., Study]) -> None:
    made = study()
    page = tables_page(made)
    assert "`python x`" in page
    assert "`abc`" in page
    assert "| ours <b>&</b> | **0.600**▲ | **0.700**▲ |" in page
    assert "| *oracle* | 0.900▲ | 0.900▲ |" in page
    assert "| fixed depth | 0.400 | 0.600 |" in page
    assert "20/0/0" in page


def test_amounts_are_shown_where_there_are_any(study: Callable[..., Study]) -> None:
    made = study()
    title = "### FLOPs charged a query, mean"
    assert title not in tables_page(made)
    cell = made.collections[0].cells["ours", "20"]
    cell.charged[:, UNITS.index(FLOPS)] = 2.5e12
    page = tables_page(made)
    assert "| ours <b>&</b> | 0 | 2.5e+12 |" in page.split(title)[1]
    assert "search units" not in page


def test_the_report_is_one_file_that_no_text_can_break_out_of(study: Callable[..., Study]) -> None:
    made = study(question="</style></script><script>alert(1)</script>")
    cells = cells_table(made)
    page = html(made, cells, policies_table(made), recommendation(cells, "nDCG@10"))
    assert "<script>alert" not in page
    assert "<b>&</b>" not in page
    assert "<script src" not in page
    assert '<link rel="stylesheet"' not in page


def test_styles_tell_many_policies_apart() -> None:
    found = styles_of(["baseline", *["ours"] * 6, *["peer"] * 6])
    assert len({(style.ink, str(style.dash)) for style in found}) == len(found)


def test_a_study_of_a_single_query_is_written_with_finite_figures_and_no_report_of_another(
    study: Callable[..., Study], tmp_path: Path
) -> None:
    (tmp_path / "report.html").write_text("of other budgets")
    write_study(study(queries=1), tmp_path, report=False)
    assert "nan" not in (tmp_path / "frontier.md").read_text()
    assert not (tmp_path / "report.html").exists()


def test_a_folder_that_cannot_be_written_is_refused_and_the_attempt_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match=r"nothing can be written to '.*/file/a/b'"):
        require_writable(tmp_path / "file" / "a" / "b")
    require_writable(tmp_path / "new" / "newer")
    assert [path.name for path in tmp_path.rglob("*")] == ["file"]


def test_a_study_and_a_summary_show_themselves(study: Callable[..., Study], make_summary: Callable[..., Any]) -> None:
    made, summary = study(), make_summary(policy="<mine>")
    assert repr(made).startswith("Study(")
    assert made.policies[-1].label in made._repr_html_()
    assert repr(summary).startswith("Summary(<mine> on ")
    assert "<td>&lt;mine&gt;</td>" in summary._repr_html_()
