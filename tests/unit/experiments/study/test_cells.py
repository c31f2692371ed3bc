"""Kept cells: replayed again when the data changed or the file is damaged, and only then."""

import gzip
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.config.paths import PROJECT_ROOT
from experiments.config.sources import Sources
from experiments.replay import inputs
from experiments.report.study import Study
from experiments.report.tables import policies_table
from experiments.study.cells import FULL, jobs_of, run_jobs, study_of
from experiments.study.grid import Grid, PolicyEntry, grid_of
from ragtune.core.errors import ConfigError, FailedRunError
from ragtune.core.units import CALLS, DOCS, UNITS

Keys = Callable[..., list[str]]


@pytest.fixture
def grid(collection: Path, monkeypatch: pytest.MonkeyPatch) -> Grid:
    """One policy at one budget on the small collection, which lies in the working directory as ``tiny``."""
    monkeypatch.chdir(collection.parent)
    overrides = ["dataset=beir", "dataset.path=tiny", "dataset.scores=tiny/scores.run"]
    overrides += ["retriever=runs", "retriever.paths=tiny/bm25.run", "estimator=baseline"]
    return grid_of(
        {
            "name": "t",
            "collections": [{"name": "tiny", "overrides": overrides}],
            "policies": [{"name": "fixed", "label": "fixed", "kind": "baseline", "overrides": []}],
            "budgets": [2],
            "measures": ["nDCG@10"],
        }
    )


@pytest.fixture
def keys(grid: Grid) -> Keys:
    return lambda out="out": [job.file.name for job in jobs_of(grid, Path(out, "cells"))]


def test_a_path_without_a_slash_is_data_too(keys: Keys) -> None:
    before = keys()
    assert keys() == before
    with Path("tiny", "qrels", "test.tsv").open("a") as judgments:
        judgments.write("\n")
    assert not set(keys()) & set(before)


def test_the_code_that_a_replay_imports_is_data_and_no_other(
    grid: Grid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = tmp_path / "checkout"
    for package in ("ragtune", "experiments"):
        shutil.copytree(PROJECT_ROOT / package, copied / package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(inputs, "Sources", lambda: Sources(copied))
    chunked = ["retriever._target_=ragtune.canonical.retrievers.postgres.PostgresRetriever", "~retriever.paths"]
    own = PolicyEntry("own", "ours", "own", overrides=chunked)

    def keys() -> list[str]:
        return [job.file.name for job in jobs_of(replace(grid, policies=[*grid.policies, own]), Path("out", "cells"))]

    for file, counts in (
        ("ragtune/canonical/chunking.py", True),
        ("ragtune/estimators/graph/gar.py", False),  # not a part of this policy
        ("experiments/report/markdown.py", False),
    ):
        before = keys()
        (copied / file).write_text((copied / file).read_text(encoding="utf-8") + "\n", encoding="utf-8")
        assert (keys()[-1] != before[-1]) == counts, file


def test_a_policy_that_fails_is_no_row_of_the_study(grid: Grid) -> None:
    broken = ["estimator._target_=misbehaving.BrokenPolicy", "+estimator.on=''"]
    policies = [*grid.policies, PolicyEntry(name="broken", label="broken", kind="ours", overrides=broken)]
    jobs = jobs_of(replace(grid, policies=policies), Path("out", "cells"))
    with pytest.raises(FailedRunError, match=r"'broken' on collection 'tiny': 4 of 4 queries given up.*KeyError: ''"):
        run_jobs(jobs, 1, lambda done, total: None)
    assert not jobs[-1].file.exists()


def test_a_damaged_cell_counts_as_absent_and_policies_of_the_same_configuration_are_replayed_once(grid: Grid) -> None:
    twin = replace(grid, policies=[*grid.policies, PolicyEntry("twin", "peer", overrides=[])])
    jobs = jobs_of(twin, Path("out", "cells"))
    seen: list[tuple[int, int]] = []
    cells = run_jobs(jobs, 1, lambda *progress: seen.append(progress))
    assert seen == [(0, 3), (1, 3), (3, 3)]  # those that differ by the budget alone are done at once
    assert cells["tiny", "twin", "2"] is cells["tiny", "fixed", "2"]
    good = jobs[0].file.read_bytes()
    for damage in (b"no gzip", gzip.compress(b"{}", mtime=0)):
        jobs[0].file.write_bytes(damage)
        os.utime(jobs[1].file, (0, 0))
        again = run_jobs(jobs, 1, lambda *progress: seen.append(progress))
        assert seen[-2:] == [(2, 3), (3, 3)]
        assert jobs[0].file.read_bytes() == good
        assert jobs[1].file.stat().st_mtime == 0
        assert all(np.array_equal(again[key].values, cell.values) for key, cell in cells.items())


def test_budgets_in_dollars_bind_and_a_unit_without_a_price_is_refused(grid: Grid) -> None:
    entry = grid.collections[0]
    priced = replace(entry, overrides=[*entry.overrides, "reranker.usd_per_doc=0.01"])
    dollars = replace(grid, collections=[priced], unit="usd", budgets=[0.01, 0.05], report=False)
    cells = run_jobs(jobs_of(dollars, Path("out")), 1, lambda done, total: None)
    for column, docs in (("0.01", 1), ("0.05", 5)):
        assert set(cells["tiny", "fixed", column].in_unit(DOCS).tolist()) == {docs}
    study = study_of(dollars, cells, "")
    assert study.collections[0].curves["fixed"].spent.tolist() == pytest.approx([0.0, 0.01, 0.05])
    joules = replace(dollars, unit="joules")
    with pytest.raises(ConfigError, match="unit=joules: nothing is charged in it on 'tiny'"):
        study_of(joules, run_jobs(jobs_of(joules, Path("out")), 1, lambda done, total: None), "")


def test_a_study_measures_fixed_depth_at_every_depth_and_all_curves_from_none_to_the_deepest(grid: Grid) -> None:
    def studied(budgets: Sequence[int]) -> Study:
        fixed_depth = PolicyEntry("fixed", "baseline", overrides=["experiment=fixed_depth"])
        ours = PolicyEntry("ours", "ours", overrides=["estimator=uncertainty", "scheduler=greedy"])
        wider = replace(grid, policies=[fixed_depth, ours], budgets=budgets)
        return study_of(wider, run_jobs(jobs_of(wider, Path("out")), 1, lambda done, total: None), "")

    few, all_budgets = studied([2, 50]), studied([*range(1, 51)])
    [collection], [each] = few.collections, all_budgets.collections
    fixed, ours = collection.curves["fixed"], collection.curves["ours"]
    deepest = int(collection.cells["fixed", "50"].in_unit(DOCS).max())
    one_by_one = [collection.start, *(each.cells["fixed", str(n)].values.mean(axis=0) for n in range(1, deepest + 1))]
    assert fixed.allowed.tolist() == list(range(deepest + 1))
    assert fixed.mean == pytest.approx(np.array(one_by_one))
    assert fixed.costs[:, UNITS.index(CALLS)].tolist() == [0.0, *[1.0] * deepest]
    assert ours.allowed.tolist() == [0, 2, 50]
    rows = policies_table(few).set_index("policy")
    assert rows.loc["fixed", "area"] == pytest.approx(fixed.mean[:-1, 0].mean())
    at_end = np.interp(deepest, ours.allowed, ours.mean[:, 0])
    joined = np.trapezoid([*ours.mean[:2, 0], at_end], [0, 2, deepest]) / deepest
    assert rows.loc["ours", "area"] == pytest.approx(joined)


@pytest.mark.parametrize(
    ("policy", "ordering", "words"),
    [
        ("fixed_depth", "reranked_first", "the baseline without a limit, reranked_first order"),
        ("sliding", "posterior", "the baseline without a limit"),
    ],
)
def test_full_quality_is_the_order_of_all_scores_unless_windows_gave_them(
    grid: Grid, policy: str, ordering: str, words: str
) -> None:
    baseline = replace(grid.baseline, overrides=[f"experiment={policy}"])
    asked = replace(grid, policies=[baseline], budgets=[4], report=False)
    jobs = jobs_of(asked, Path("out"))
    assert next(job for job in jobs if job.column == FULL).config["assembler"]["ordering"] == ordering
    assert study_of(asked, run_jobs(jobs, 1, lambda done, total: None), "").target_label == words
