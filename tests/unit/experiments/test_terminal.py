"""Tables and progress."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.evaluate.curves import Curve
from experiments.evaluate.summary import Summary
from experiments.publish import progress
from experiments.publish.progress import progress_bar
from experiments.publish.sweep_table import print_sweep
from experiments.publish.terminal import print_run

MakeSummary = Callable[..., Summary]


def curve(steps: int) -> Curve:
    values = np.linspace(0.25, 0.8125, steps)[None, :, None].repeat(2, axis=2)
    ends, first = (values[0], values[0]), np.array([0.25, 0.125])
    return Curve(["nDCG@10", "AP"], np.arange(steps), np.zeros((steps, 5)), values, *ends, first)


@pytest.fixture
def printed(make_summary: MakeSummary, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def out(drawn: Curve | None = None, **fields: Any) -> str:
        print_run(make_summary(**fields), drawn or curve(3))
        return capsys.readouterr().out

    return out


@pytest.fixture
def swept(
    make_summary: MakeSummary, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    def out(jobs: list[dict[str, Any]], width: int = 80) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        print_sweep({str(i): make_summary(**fields) for i, fields in enumerate(jobs)}, tmp_path)
        return capsys.readouterr().out

    return out


def test_the_final_table_shows_measures_intervals_costs_and_reasons(printed: Callable[..., str]) -> None:
    out = printed()
    for said in ("tiny/test - 4 queries - baseline + greedy", "0.8125", "0.700-0.900", "12.5 documents", "456 tokens"):
        assert said in out
    assert "budget_exhausted 3, top_k_settled 1" in out
    assert not any(odd in out for odd in ("without a score", "time limit", "warning", "US$"))


def test_what_was_lost_or_odd_is_told(printed: Callable[..., str]) -> None:
    late = {"queries": 3, "mean": 12.4, "max": 30.6}
    out = printed(dropped_docs=7, warnings={"documents without text (kept)": 2}, latency_overrun_ms=late)
    unscored = "without a score, ordered like unscored candidates: 7 documents; 1 of 4 batches failed (see traces)"
    assert unscored in " ".join(out.split())
    assert "past the time limit: 3 queries, by 12 ms on average, 31 at most" in out
    assert "warning: 2 documents without text (kept)" in out


def test_the_first_stage_stands_above_the_policys_own_order(printed: Callable[..., str]) -> None:
    out = printed(first_stage={"nDCG@10": 0.25, "AP": 0.125})
    rows = [line.split() for line in out.splitlines()]
    start = rows.index(["first", "stage", "0.250", "0.125"])
    assert rows[start + 1][0] == "0"
    assert "at 0 documents: the policy, before any score" in out
    out = printed(first_stage={"nDCG@10": 0.25, "AP": 0.25})
    assert "first stage  " not in out
    assert "at 0 documents: the first stage alone" in out


def test_many_ties_are_a_line_of_their_own(printed: Callable[..., str]) -> None:
    assert "ties: 41% of the scores that decide a top 10" in printed(tied_share=0.41)
    assert not any("ties:" in printed(tied_share=few) for few in (0.04, None))


def test_on_a_narrow_terminal_every_figure_is_whole(
    printed: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out = printed()
    assert "…" not in out
    assert "0.8125" in out
    assert "0.700-0.900" in out


def test_a_sweeps_table_is_sorted_by_the_headline_and_its_csv_by_job(swept: Callable[..., str], tmp_path: Path) -> None:
    jobs = [{"overrides": [f"seed={i}"], "measures": {"nDCG@10": value}} for i, value in enumerate([0.3, 0.9, 0.6])]
    rows = [line.split()[:3] for line in swept(jobs).splitlines()[1:]]
    assert [row for row in rows if row and row[0].isdigit()] == [["1", "1", "1"], ["2", "2", "2"], ["3", "0", "0"]]
    assert pd.read_csv(tmp_path / "sweep.csv")["nDCG@10"].tolist() == [0.3, 0.9, 0.6]


def test_the_areas_of_a_sweep_are_over_the_same_documents(swept: Callable[..., str], tmp_path: Path) -> None:
    curves = {"0": "documents,nDCG@10\n0,0.2\n2,0.6\n", "1": "documents,nDCG@10\n0,0.2\n4,0.6\n8,0.6\n"}
    for job, text in curves.items():
        (tmp_path / job).mkdir()
        (tmp_path / job / "curve.csv").write_text(text)
    out = swept([{"overrides": [f"seed={job}"]} for job in curves])
    assert "AUCC: mean nDCG@10 from 0 to 8 documents a query" in out
    areas = pd.read_csv(tmp_path / "sweep.csv")["AUCC"].tolist()
    assert areas == pytest.approx([(2 * 0.2 + 6 * 0.6) / 8, (4 * 0.2 + 4 * 0.6) / 8])


def test_a_sweep_shows_every_varied_option_at_any_width(swept: Callable[..., str]) -> None:
    options = [f"group.option{letter}" for letter in "abc"]
    out = swept([{"overrides": [f"{name}={f'{job}{name[-1]}/' * 9}" for name in options]} for job in "12"], 60)
    assert "nDCG@10" in out
    assert all(f"option{letter}" in out for letter in "abc")
    assert max(map(len, out.splitlines())) <= 60
    assert "correction" not in out  # of the column that has no room


def test_a_sweep_without_a_finished_job_prints_nothing(swept: Callable[..., str], tmp_path: Path) -> None:
    for kind in ("csv", "md"):
        (tmp_path / f"sweep.{kind}").write_text("of the jobs that were here before")
    assert swept([]) == ""
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_says_what_differs_from_fixed_depth_after_correction_for_the_jobs(
    swept: Callable[..., str], tmp_path: Path
) -> None:
    def job(number: int, difference: float, p: float) -> dict[str, Any]:
        figures = {"measures": {"nDCG@10": 0.7}, "difference": {"nDCG@10": difference}, "p": {"nDCG@10": p}}
        figures |= {"interval": {"nDCG@10": [difference - 0.01, difference + 0.01]}, "p_holm": {"nDCG@10": 1.0}}
        against = {"docs_per_query": 9.0, **figures, "agreement": {"overlap": 0.5, "rbo": 0.75}}
        return {"overrides": [f"budget.max_reranker_docs={number}"], "baselines": {"fixed depth": against}}

    out = swept([job(5, 0.05, 0.01), job(10, 0.04, 0.06), job(20, -0.03, 0.001)])
    assert all(figure in out for figure in ("+.050*", "+.040 ", "-.030*", ".700-.900"))
    assert "p < 0.05 after Holm's" in out
    assert max(map(len, out.splitlines())) <= 80
    assert pd.read_csv(tmp_path / "sweep.csv")["p_holm"].tolist() == pytest.approx([0.02, 0.06, 0.003])
    head, _, first, *_ = (tmp_path / "sweep.md").read_text(encoding="utf-8").splitlines()
    assert head.startswith(
        "| rank | job | max_reranker_docs | nDCG@10 | 95% interval | docs | vs fixed depth | interval of it |"
    )
    assert first.startswith("| 1 | 0 | 5 | .812 | .700-.900 | 12.5 | +.050* | +.040 +.060 | .020 | .500 |")


@pytest.mark.parametrize(("patience", "enabled", "shown"), [(-1.0, True, True), (60.0, True, False)])
def test_progress_shows_only_where_wanted_and_only_on_what_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], patience: float, enabled: bool, shown: bool
) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", patience)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress_bar("replaying", enabled=enabled) as update:
        update(1, 3)
    out, err = capsys.readouterr()
    assert ("replaying" in err) is shown
    assert out == ""
