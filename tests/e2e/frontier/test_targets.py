"""What `experiment=settled` promises, on the collections beside the checkout, by the command that makes results/."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

SHARED = Path(__file__).parents[4] / "shared"
Table = pd.DataFrame

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason="the collections beside the checkout (../shared) are absent"),
]


@pytest.fixture(scope="module")
def study(run: Callable[..., SimpleNamespace], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Table]:
    """nDCG@10 and R@100 at the end of each cell: a row a policy, a column a budget."""

    def make(config: str, collection: str, policies: str, budgets: str, *more: str) -> Table:
        cwd = tmp_path_factory.mktemp("targets")
        ended = run(
            f"--config={config}",
            f"--data={SHARED / 'data'}",
            f"--out={cwd / 'out'}",
            f"--collections={collection}",
            f"--policies={policies}",
            f"budgets=[{budgets}]",
            f"traces.budget={budgets.split(',')[0]}",
            "report=false",
            "resamples=100",
            "permutations=999",
            *more,
            script="scripts/frontier.py",
            cwd=cwd,
        )
        assert ended.code == 0, ended.err
        return pd.read_csv(cwd / "out" / "frontier.csv").pivot_table(
            index="policy", columns="budget", values=["nDCG@10", "R@100"]
        )

    return make


@pytest.mark.parametrize("collection", ["dl19 bm25 monot5", "nfcorpus bm25 ce"])
def test_the_settled_posterior_is_above_fixed_depth_and_the_published_peers_and_five_times_cheaper(
    study: Callable[..., Table], collection: str
) -> None:
    quality = study("shared", collection, "gar,quam,ore,settled", "5,20,50,100")["nDCG@10"]
    ours = quality.loc["settled"]
    for other in ("fixed", "gar", "quam", "ore"):
        assert (ours > quality.loc[other])[[5, 20, 50]].all(), (other, quality)
    assert ours[20] >= quality.loc["fixed", 100]
    assert ours[50] > quality.loc["fixed", 100]


def test_on_a_union_of_first_stages_more_budget_does_not_hurt(study: Callable[..., Table]) -> None:
    quality = study("shared", "dl19 union monot5", "settled", "15,20,30,50,100,150")["nDCG@10"]
    ours, fixed = quality.loc["settled"], quality.loc["fixed"]
    assert (ours >= fixed.max()).all(), quality
    assert (ours.cummax() - ours).max() <= 0.005, quality


def test_expansion_finds_more_and_orders_it_better_than_gar_with_the_same_graph(
    study: Callable[..., Table], run: Callable[..., SimpleNamespace], tmp_path: Path
) -> None:
    collection = ("dataset=beir", f"dataset.path={SHARED / 'data' / 'dl19'}")
    built = run("--out=graphs/dl19", *collection, script="scripts/build_graph.py", cwd=tmp_path)
    assert built.code == 0, built.err
    policies = "gar-expansion,settled-expansion"
    graphs = f"graphs={tmp_path / 'graphs'}"
    table = study("expansion", "dl19 bm25 monot5", policies, "20,50,100", "jobs=-1", graphs, "traces.policies=[fixed]")
    ours, gar = (table["nDCG@10"].loc[name] for name in ("settled-expansion", "gar-expansion"))
    assert (ours > gar).all(), table
    recall = table["R@100"]
    assert recall.loc["settled-expansion", 100] >= recall.loc["fixed", 100] + 0.05
