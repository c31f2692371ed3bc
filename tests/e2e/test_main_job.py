"""python run.py: what a run writes, prints and charges."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from experiments.publish.described import metrics
from experiments.publish.files import read_summary

Main = Callable[..., SimpleNamespace]
Run = Callable[..., SimpleNamespace]


@pytest.fixture(scope="module")
def demo(run: Run, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The command of the first page, as a process, tracked in a fresh store."""
    cwd = tmp_path_factory.mktemp("demo")
    uri = f"sqlite:///{cwd}/mlflow.db"
    ended = run("estimator=uncertainty", "budget=tight", "hydra.run.dir=out", cwd=cwd, MLFLOW_TRACKING_URI=uri)
    assert ended.code == 0, ended.err
    summary = json.loads((cwd / "out" / "summary.json").read_text())
    return SimpleNamespace(folder=cwd / "out", uri=uri, summary=summary, **vars(ended))


def test_the_last_line_is_the_folder_and_stderr_is_quiet(demo: SimpleNamespace) -> None:
    assert demo.lines[-1] == str(demo.folder)
    assert demo.err == ""


def test_every_documented_file_is_there_and_nothing_else(demo: SimpleNamespace) -> None:
    assert sorted(file.name for file in demo.folder.iterdir()) == [
        "config.yaml",
        "curve.csv",
        "curve.png",
        "per_query.parquet",
        "run.trec",
        "summary.json",
        "traces.jsonl.gz",
    ]


def test_the_summary_holds_what_is_promised(demo: SimpleNamespace) -> None:
    summary = demo.summary
    assert summary["dataset"] == "demo/test"
    assert summary["queries"] == 50
    assert set(summary["measures"]) == {"nDCG@10", "RR@10", "AP", "R@100"}
    for account in ("charged", "actual"):
        assert {"docs", "calls", "tokens", "latency_ms"} <= set(summary["cost"][account])
    assert summary["cost"]["actual"]["docs"] == 0
    assert 0 < summary["cost"]["charged"]["docs"] <= 50 * 20
    assert sum(summary["stop_reasons"].values()) == 50
    assert 0 < summary["aucc"] < 1
    assert 0 <= summary["docs_to_95pct"] <= summary["docs_to_99pct"] <= 20
    assert summary["wall_s"] > 0
    assert summary["tags"]["git_sha"]


def test_the_tables_agree_with_the_summary(demo: SimpleNamespace) -> None:
    queries = pd.read_parquet(demo.folder / "per_query.parquet")
    steps = pd.read_csv(demo.folder / "curve.csv")
    for name, value in demo.summary["measures"].items():
        assert queries[name].mean() == pytest.approx(value)
        assert steps[name].iloc[-1] == pytest.approx(value)
        assert (steps[f"{name}_low"] <= steps[name]).all()
        assert (steps[name] <= steps[f"{name}_high"]).all()
    assert steps["documents"].is_monotonic_increasing
    assert steps["documents"].is_unique
    assert queries["charged_docs"].sum() == demo.summary["cost"]["charged"]["docs"]
    assert (queries["charged_docs"] <= 20).all()


def summary_of(ended: SimpleNamespace) -> dict:
    assert ended.code == 0, ended.err
    return json.loads((Path(ended.lines[-1]) / "summary.json").read_text())


def test_a_judged_query_that_retrieved_nothing_scores_zero_and_stays_in_the_mean(
    main: Main, tiny: list[str], collection: Path
) -> None:
    run = (collection / "bm25.run").read_text().splitlines(keepends=True)
    (collection / "bm25.run").write_text("".join(line for line in run if not line.startswith("q4")))
    ended = main(*tiny, "budget=unlimited", "assembler.ordering=reranked_first")
    summary = summary_of(ended)
    assert summary["queries"] == 4
    assert summary["measures"]["nDCG@10"] == pytest.approx(0.75)
    assert summary["stop_reasons"]["empty_pool"] == 1
    assert pd.read_parquet(Path(ended.lines[-1]) / "per_query.parquet")["nDCG@10"].tolist() == [1.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize("signal", ["[]", "lexical"])
def test_the_default_is_not_far_below_fixed_depth_at_any_budget_nor_itself_with_less_of_it(
    main: Main, signal: str
) -> None:
    ended = main("budget=50", f"signal={signal}")
    assert ended.code == 0, ended.err
    curve = pd.read_csv(Path(ended.lines[-1]) / "curve.csv")
    assert curve["fixed_depth"].count() > 10
    assert (curve["nDCG@10"] >= curve["fixed_depth"].fillna(0.0) - 0.02).all()
    assert (curve["nDCG@10"].cummax() - curve["nDCG@10"]).max() <= 0.02


def test_a_limit_in_dollars_or_time_that_nothing_can_reach_is_told(main: Main) -> None:
    few, no_times = "dataset.every=10", ["budget.max_latency_ms=500", "reranker.ms_per_doc=0"]
    free = main(few, "budget=0.01usd", *no_times, "tracking=none", "hydra.run.dir=out")
    for limit in ("budget.max_cost_usd=0.01", "budget.max_latency_ms=500"):
        assert f"warning: {limit} never bound: nothing has a price" in " ".join(free.out.split())
    priced = main(few, "budget=0.01usd", "reranker.usd_per_doc=0.001", "tracking=none", "hydra.run.dir=out2")
    assert "never bound" not in priced.out
    assert "charged per query: 10.0 documents" in priced.out or "charged per query: 9.8 documents" in priced.out
    little = main(few, "budget=0.0001usd", "reranker.usd_per_doc=0.001", "tracking=none", "hydra.run.dir=out3")
    assert "charged per query: 0.0 documents" in little.out
    assert "never bound" not in little.out


@pytest.mark.parametrize(("budget", "unit"), [("1tokens", "tokens"), ("1ms", "milliseconds")])
def test_a_budget_in_which_not_one_document_fits_is_told(main: Main, budget: str, unit: str) -> None:
    few = "dataset.every=10"
    ended = main(few, f"budget={budget}", "tracking=none", "hydra.run.dir=out")
    out = " ".join(ended.out.split())
    told = re.search(rf"5 queries in which not one document fits into the budget; it takes \S+ {unit}: (\S+)", out)
    assert told
    enough = main(few, told[1].rstrip(","), "tracking=none", "hydra.run.dir=out2")
    assert "not one document fits" not in " ".join(enough.out.split())


def test_without_judgments_a_run_is_measured_by_its_agreement_with_reranking_everything(main: Main) -> None:
    ended = main("dataset.split=null", "budget=10", "tracking=none", "hydra.run.dir=out")
    assert "queries without judgments, for which the top 10 of full reranking stands in" in " ".join(ended.out.split())
    summary = json.loads((ended.cwd / "out" / "summary.json").read_text())
    everything = summary["baselines"]["full reranking"]
    assert (summary["dataset"], summary["queries"]) == ("demo", 50)
    assert list(summary["measures"]) == ["agreement"]
    assert everything["measures"]["agreement"] == 1.0
    assert 0 < summary["measures"]["agreement"] < 1.0
    assert everything["agreement"]["overlap"] == pytest.approx(summary["measures"]["agreement"])
    assert "agreement: share of the top 10 of full reranking, without judgments" in " ".join(ended.out.split())
    written = "".join((ended.cwd / "out" / name).read_text() for name in ("summary.json", "curve.csv"))
    assert not any(name in ended.out + written for name in ("P@10", "Compat", "nDCG@10"))


def test_new_documents_of_a_rewrite_are_printed_and_stand_in_the_summary_and_among_the_metrics(main: Main) -> None:
    assert "rewrites" not in summary_of(main("budget=5", "experiment=fixed_depth"))
    ended = main("budget=5", "experiment=fixed_depth", "reformulator=rm3", "hydra.run.dir=run")
    assert summary_of(ended)["rewrites"] == {"per_query": 1.0, "new_docs_per_rewrite": 8.82}
    assert "rewrites: 1.0 a query, 8.8 new documents a rewrite" in ended.out
    summary = read_summary(Path("run"))
    logged = {metric.key: metric.value for metric in metrics(summary, Path("run/curve.csv"))}
    assert (logged["rewrites_per_query"], logged["new_docs_per_rewrite"]) == (1.0, 8.82)
