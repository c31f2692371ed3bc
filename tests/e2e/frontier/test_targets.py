"""Floors of what `experiment=settled` does on the collections beside the checkout, by the command of the tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

SHARED = Path(__file__).parents[4] / "shared"
DATA = SHARED / "data"
Table = pd.DataFrame

MARGIN = 0.01
"""What another choice of the defaults may cost: these are floors, and the claims in results/ are figures."""

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason="the collections beside the checkout (../shared) are absent"),
]


@pytest.fixture(scope="module")
def study(run_here: Callable[..., SimpleNamespace], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Table]:
    """nDCG@10 and R@100 at the end of each cell: a row a policy, a column a budget."""
    cwd = tmp_path_factory.mktemp("targets")

    def make(config: str, collection: str, policies: str, budgets: str, *more: str) -> Table:
        ended = run_here(
            f"--config={config}",
            f"--data={DATA}",
            f"--out={cwd / 'out'}",
            f"--collections={collection}",
            f"--policies={policies}",
            f"budgets=[{budgets}]",
            "report=false",
            "resamples=100",
            "permutations=99",
            "jobs=1",
            *more,
            script="scripts/frontier.py",
            cwd=cwd,
        )
        assert ended.code == 0, ended.err
        return pd.read_csv(cwd / "out" / "frontier.csv").pivot_table(
            index="policy", columns="budget", values=["nDCG@10", "R@100"]
        )

    return make


def test_the_settled_posterior_is_not_below_fixed_depth_and_the_published_peers(study: Callable[..., Table]) -> None:
    quality = study("shared", "dl19 bm25 monot5", "gar,quam,ore,settled", "5,20,50")["nDCG@10"]
    ours = quality.loc["settled"]
    for other in ("fixed_depth", "gar", "quam", "ore"):
        assert (ours >= quality.loc[other] - MARGIN).all(), (other, quality)


def test_on_a_union_of_first_stages_more_budget_hurts_little(study: Callable[..., Table]) -> None:
    quality = study("shared", "dl19 union monot5", "settled", "15,20,30,50,100,150")["nDCG@10"]
    ours, fixed = quality.loc["settled"], quality.loc["fixed_depth"]
    assert (ours >= fixed.max() - MARGIN).all(), quality
    assert (ours.cummax() - ours).max() <= 2 * MARGIN, quality


def test_expansion_finds_more_and_is_not_below_gar_with_the_same_graph(
    study: Callable[..., Table], run_here: Callable[..., SimpleNamespace], tmp_path: Path
) -> None:
    collection = ("dataset=beir", f"dataset.path={DATA / 'dl19'}")
    built = run_here("--out=graphs/dl19", *collection, script="scripts/build_graph.py", cwd=tmp_path)
    assert built.code == 0, built.err
    policies = "gar-expansion,settled-expansion"
    graphs = f"graphs={tmp_path / 'graphs'}"
    table = study("expansion", "dl19 bm25 monot5", policies, "20,50,100", graphs)
    ours, gar = (table["nDCG@10"].loc[name] for name in ("settled-expansion", "gar-expansion"))
    assert (ours >= gar - MARGIN).all(), table
    recall = table["R@100"]
    assert recall.loc["settled-expansion", 100] >= recall.loc["fixed_depth", 100] + 0.05
