"""What a study recommends: by the rule, in words, the same from its table and from its CSV file."""

from __future__ import annotations

import re
from dataclasses import replace
from html import escape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from experiments.report.figures import draw_lines
from experiments.report.overview import overview_of, write_overview
from experiments.report.recommendation import recommendation, recommended_in
from experiments.report.redraw import redraw
from experiments.report.study import Cell, Collection, Line, Policy, Study
from experiments.report.tables import cells_table
from ragtune.core.errors import ConfigError
from ragtune.core.units import MONEY

RESULTS = Path(__file__).parents[4] / "results"
POLICIES = {"fixed": "incumbent", "gar": "peer", "ours": "ours", "oracle": "ceiling"}


def study_of(cells: dict[tuple[str, str], Cell], policies: dict[str, str], columns: list[str]) -> Study:
    """A study of one collection, whose baseline is called fixed."""
    one = Collection("a", [str(i) for i in range(40)], {}, {}, {}, cells, {}, np.ones(1), 0.01)
    named = [
        Policy(name, label, "incumbent" if name.startswith("fixed") else "ours") for name, label in policies.items()
    ]
    rest = (columns, ["nDCG@10"], "all", "", 300, 300, 0.95, 0)
    return Study("t", "c", "abc", [one], named, named[0].name, *rest, is_grid=columns != ["final"])


@pytest.mark.parametrize(("loss", "kept"), [(0.0, "ours"), (0.3, "fixed")])
def test_compared_runs_and_a_grid_of_the_same_results_get_the_same_recommendation(loss: float, kept: str) -> None:
    """The grid's cells as runs, the dearest of the baseline first: both find it or neither does."""
    draws = np.random.default_rng(0)
    full = draws.beta(4, 2, size=40)
    values = {("fixed", 20): full - 0.2, ("fixed", 100): full, ("ours", 20): full - loss, ("ours", 100): full - loss}
    values = {key: value + draws.normal(0, 0.02, 40) * (key != ("fixed", 100)) for key, value in values.items()}
    zeros = np.zeros(40, dtype=int)
    cells = {
        key: Cell(value[:, None], zeros + key[1], zeros + 1, zeros, zeros, ["end"] * 40, np.zeros((40, 5)))
        for key, value in values.items()
    }
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
    zeros = np.zeros(40, dtype=int)
    cell = Cell(np.full((40, 1), 0.5), zeros + 5, zeros + 1, zeros, zeros, ["end"] * 40, np.zeros((40, 5)))
    told = recommendation(cells_table(study_of({("fixed", "5"): cell}, {"fixed": "x"}, ["5"])), "nDCG@10")
    assert (told.policy, told.column, told.evidence) == ("fixed", "5", ())


def test_the_committed_index_and_tables_are_what_the_code_makes_of_the_committed_figures(tmp_path: Path) -> None:
    copied = tmp_path / "results"
    names = sorted(file.parent.name for file in (RESULTS / "frontier").glob("*/frontier.md"))
    for name in names:
        source, target = RESULTS / "frontier" / name, copied / "frontier" / name
        target.mkdir(parents=True)
        for file in source.iterdir():
            if file.suffix in {".csv", ".md", ".png"} or file.name == "policies.csv":
                (target / file.name).write_bytes(file.read_bytes())
    page = write_overview(copied).read_text(encoding="utf-8")
    assert page == (RESULTS / "index.html").read_text(encoding="utf-8")
    for name in names:
        told = recommended_in((RESULTS / "frontier" / name / "frontier.md").read_text(encoding="utf-8"))
        assert told is not None
        assert all(escape(sentence) in page for sentence in (told.title, told.summary, *told.evidence))
        cells = pd.read_csv(RESULTS / "frontier" / name / "frontier.csv")
        if "full_diff" in cells:
            assert told == replace(recommendation(cells, "nDCG@10"), policy="", column="")
    links = {part.split('"')[0] for part in page.split('href="')[2:]} - {"#open"}
    assert len(links) > 15
    assert all((RESULTS / link).is_file() for link in links)


def test_the_overview_makes_one_recommendation_with_its_scope_and_folds_the_files() -> None:
    page = (RESULTS / "index.html").read_text(encoding="utf-8")
    told = recommendation(pd.read_csv(RESULTS / "frontier" / "open" / "frontier.csv"), "nDCG@10")
    assert page.count("<h2>Recommendation</h2>") == page.count("<strong>") == 1
    assert f"<strong>{told.title}</strong>" in page
    assert "all 41 pairs of collection" in page
    box = page.partition("<section>")[2].partition("</section>")[0]
    assert "Asked: Which policy spends a reranking budget best" in box
    assert re.search(r"Found: In nDCG@10, .* comes nearest: it is shown to keep 95% on \d+ of 41\.", box)
    questions = re.findall(r"<h3>(.*)</h3>", page)
    assert len(questions) == len(set(questions)) == len([*(RESULTS / "frontier").glob("*/frontier.csv")])
    assert all(question.endswith("?") for question in questions)
    shown = re.sub(r"<details>.*?</details>", "", page, flags=re.DOTALL)
    assert ".png" not in shown


@pytest.mark.parametrize("study", ["shared", "calls", "open"])
def test_the_tables_of_a_study_are_written_again_alike_from_its_csv_files(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.report.redraw.draw_collections", lambda *given: None)
    for name in ("frontier.md", "frontier.csv", "policies.csv", "curves.csv"):
        (tmp_path / name).write_bytes((RESULTS / "frontier" / study / name).read_bytes())
    redraw(tmp_path)
    assert (tmp_path / "frontier.md").read_bytes() == (RESULTS / "frontier" / study / "frontier.md").read_bytes()


def test_a_study_is_drawn_again_from_its_tables_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.report.write.draw_lines", lambda *given: given[0].write_text("drawn"))
    source, folder = RESULTS / "frontier" / "shared", tmp_path / "results" / "frontier" / "shared"
    folder.mkdir(parents=True)
    for name in ("frontier.md", "frontier.csv", "policies.csv", "curves.csv"):
        (folder / name).write_bytes((source / name).read_bytes())
    redraw(folder)
    assert len(list(folder.glob("*.png"))) == 5
    assert (tmp_path / "results" / "index.html").is_file()
    (folder / "policies.csv").unlink()
    with pytest.raises(ConfigError, match=r"policies\.csv is missing"):
        redraw(folder)


def test_a_study_in_dollars_is_drawn_again_with_its_costs_and_the_names_of_its_budgets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[float]] = []
    monkeypatch.setattr(
        "experiments.report.write.draw_lines", lambda file, study, of: seen.append(of.lines["sliding"].spent)
    )
    source = RESULTS / "frontier" / "calls"
    for name in ("frontier.md", "curves.csv"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    cells, policies = (pd.read_csv(source / name) for name in ("frontier.csv", "policies.csv"))
    cells = cells.assign(unit="usd", budget=(cells["budget"] / 2).map("{:g}".format))
    cells.to_csv(tmp_path / "frontier.csv", index=False)
    policies.rename(columns=lambda name: name.replace("calls", "usd")).to_csv(tmp_path / "policies.csv", index=False)
    redraw(tmp_path)
    first = cells[(cells["collection"] == cells["collection"][0]) & (cells["policy"] == "sliding")]
    assert list(seen[0]) == first["usd_mean"].tolist()
    text = (tmp_path / "frontier.md").read_text(encoding="utf-8")
    assert "| policy | 1 | 1.5 | 2 |" in text
    assert text.startswith("# Which policy makes the best of few calls")


def test_points_of_small_amounts_have_markers_and_what_spends_nothing_is_not_on_the_log_axis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marked: list[list[int]] = []
    plot = Axes.plot
    monkeypatch.setattr(
        Axes, "plot", lambda *given, **how: (marked.append(how.get("markevery", [])), plot(*given, **how))[1]
    )
    spent, quality = np.array([0.0, 0.0001, 0.0004, 0.001]), np.array([[0.5], [0.6], [0.7], [0.8]])
    lines = dict.fromkeys(("fixed", "ours"), Line(spent, spent, quality, quality, quality, spent))
    one = Collection("a", ["q1"], {}, {}, {}, {}, lines, np.ones(1), 0.01)
    study = Study(
        *("t", "c", "abc", [one], [Policy(name, name, POLICIES[name]) for name in lines], "fixed"),
        *(["1e-05", "0.0001", "0.0004", "0.001"], ["nDCG@10"], "all", "", 1, 1, 0.95, 0),
        unit=MONEY,
    )
    draw_lines(tmp_path / "a.png", study, one)
    assert marked == [[], [], [1, 2, 3]]
    nothing = dict.fromkeys(lines, Line(spent * 0, spent, quality, quality, quality, spent))
    draw_lines(tmp_path / "b.png", study, replace(one, lines=nothing))  # every budget is too small for a batch
    assert (tmp_path / "b.png").is_file()


def test_only_a_folder_of_studies_has_an_index(tmp_path: Path) -> None:
    assert overview_of(tmp_path / "frontier" / "demo") == tmp_path
    assert overview_of(tmp_path / "out") is None
    with pytest.raises(ConfigError, match="no folder of results"):
        write_overview(tmp_path / "nope")
