"""python run.py: what a run writes, prints and charges."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import yaml
from hydra.utils import get_class

from experiments.config.compose import compose
from experiments.config.overrides import RunConfig
from experiments.config.paths import CONF
from experiments.replay.build import session_for
from experiments.replay.records import replay_shard
from ragtune.core.errors import ConfigError

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


def test_the_run_file_holds_every_query(demo: SimpleNamespace) -> None:
    lines = [line.split() for line in (demo.folder / "run.trec").read_text().splitlines()]
    assert len({line[0] for line in lines}) == 50
    assert all(len(line) == 6 for line in lines)


def test_traces_explain_every_query(demo: SimpleNamespace) -> None:
    with gzip.open(demo.folder / "traces.jsonl.gz", "rt") as file:
        traces = [json.loads(line) for line in file]
    assert len(traces) == 50
    actions = {event["action"] for event in traces[0]["events"]}
    assert {"propose", "consume_rerank", "rerank", "stop", "assemble"} <= actions


def test_the_run_is_in_mlflow_under_the_id_that_the_summary_names(demo: SimpleNamespace) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=demo.uri)
    run = client.get_run(demo.summary["mlflow_run_id"])
    assert run.info.status == "FINISHED"
    assert run.data.metrics["nDCG_10"] == demo.summary["measures"]["nDCG@10"]
    assert run.data.tags["estimator"] == "uncertainty"
    steps = pd.read_csv(demo.folder / "curve.csv")["documents"].tolist()
    assert sorted(m.step for m in client.get_metric_history(run.info.run_id, "curve/nDCG_10")) == steps


# -- in this process ---------------------------------------------------------------------------------------------------


def summary_of(ended: SimpleNamespace) -> dict:
    assert ended.code == 0, ended.err
    return json.loads((Path(ended.lines[-1]) / "summary.json").read_text())


ESTIMATORS, SCHEDULERS = (sorted(f.stem for f in (CONF / group).glob("*.yaml")) for group in ("estimator", "scheduler"))


LIMITS = ["budget.max_reranker_docs=7", "budget.max_reranker_calls=3", "budget.max_tokens=400"]


def _compares(estimator: str) -> bool:
    chosen = yaml.safe_load((CONF / "estimator" / f"{estimator}.yaml").read_text(encoding="utf-8"))
    return bool(get_class(chosen["_target_"]).compares)


COMPARING = [name for name in ESTIMATORS if _compares(name)]
PLAIN = [name for name in ESTIMATORS if name not in COMPARING]


@cache
def _chosen(group: str, name: str) -> dict[str, Any]:
    return compose([f"{group}={name}"])[group]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_estimator_replays_inside_its_budget_with_every_scheduler_whose_scores_it_can_use(
    tiny: list[str], estimator: str
) -> None:
    config = {**compose([*tiny, *LIMITS]), "estimator": _chosen("estimator", estimator)}
    for scheduler in SCHEDULERS:
        chosen = {"scheduler": _chosen("scheduler", scheduler)}
        if scheduler == "cascade":  # it needs a second reranker
            limited = {**chosen["scheduler"], "limits": {"strong": 5}}
            chosen = {"scheduler": limited, "rerankers": {"strong": config["reranker"]}}
        key = RunConfig({**config, **chosen})
        if estimator in COMPARING and scheduler != "windows":
            with pytest.raises(ConfigError, match=f"take scheduler=windows, or choose experiment={estimator}$"):
                session_for(key)
            continue
        records = replay_shard(key, list(session_for(key).dataset.queries))
        assert len(records) == 4
        for record in records:
            docs, calls, tokens, *_ = record.charged
            assert (docs <= 7, calls <= 3, tokens + record.context_tokens <= 400) == (True, True, True), scheduler


def test_latency_is_never_overspent_in_replay(main: Main, tiny: list[str]) -> None:
    ended = main(*tiny, "budget=unlimited", "budget.max_latency_ms=50", "reranker.ms_per_doc=7")
    assert summary_of(ended)["cost"]["charged"]["docs"] == 4 * 7
    assert pd.read_parquet(Path(ended.lines[-1]) / "per_query.parquet")["charged_latency_ms"].tolist() == [49.0] * 4


def test_a_zero_budget_is_the_first_stage_alone(main: Main, tiny: list[str]) -> None:
    summary = summary_of(main(*tiny, "budget=zero"))
    assert summary["cost"]["charged"]["docs"] == 0
    assert summary["docs_to_95pct"] == 0


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


def test_a_failing_component_costs_its_batch_and_the_run_goes_on_and_reports_it(main: Main, tiny: list[str]) -> None:
    broken = ["reranker._target_=misbehaving.Broken", "+reranker.on=ship-1", "scheduler.batch_size=2"]
    ended = main(*tiny, *broken, "budget=unlimited")
    summary = summary_of(ended)
    assert summary["dropped_docs"] == 8  # a batch of two in each of four queries
    assert summary["cost"]["charged"]["docs"] == 4 * 12
    assert (summary["failures"]["batches_failed"], summary["failures"]["status"]) == (4, "finished")
    unscored = "without a score, ordered like unscored candidates: 8 documents; 4 of 24 batches failed (see traces)"
    assert unscored in " ".join(ended.out.split())
    with gzip.open(Path(ended.lines[-1]) / "traces.jsonl.gz", "rt") as file:
        assert "the model server is on fire" in file.read()


def test_odd_things_are_counted_said_and_kept(main: Main, tiny: list[str], collection: Path) -> None:
    with (collection / "queries.jsonl").open("a") as file:
        file.write('{"_id": "q9", "text": "nobody judged this"}\n')
    ended = main(*tiny)
    summary = summary_of(ended)
    assert (summary["queries"], summary["queries_replayed"]) == (4, 5)
    assert "warning: 1 queries without judgments (replayed, not measured)" in ended.out
    assert "warning: 1 documents without text (kept)" in ended.out
    queries = pd.read_parquet(Path(ended.lines[-1]) / "per_query.parquet")
    assert queries.set_index("query_id").loc["q9", ["judged", "nDCG@10"]].isna().tolist() == [False, True]


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


@pytest.mark.parametrize(("verbosity", "lines"), [(0, 1), (2, 20)])
def test_verbosity_goes_from_the_path_alone_to_every_query(
    main: Main, tiny: list[str], verbosity: int, lines: int
) -> None:
    ended = main(*tiny, f"verbosity={verbosity}")
    assert (len(ended.lines) == 1) if lines == 1 else (len(ended.lines) > lines)
    assert ("query_id" in ended.out) is (verbosity == 2)


def test_a_limit_in_dollars_that_nothing_can_reach_is_told(main: Main) -> None:
    free = main("budget=0.01usd", "tracking=none", "hydra.run.dir=out")
    assert "warning: budget.max_cost_usd=0.01 never bound: nothing has a price" in " ".join(free.out.split())
    priced = main("budget=0.01usd", "reranker.usd_per_doc=0.001", "tracking=none", "hydra.run.dir=out2")
    assert "never bound" not in priced.out
    assert "charged per query: 10.0 documents" in priced.out or "charged per query: 9.8 documents" in priced.out
    little = main("budget=0.0001usd", "reranker.usd_per_doc=0.001", "tracking=none", "hydra.run.dir=out3")
    assert "charged per query: 0.0 documents" in little.out
    assert "never bound" not in little.out


@pytest.mark.parametrize(("budget", "unit"), [("1tokens", "tokens"), ("1ms", "milliseconds")])
def test_a_budget_in_which_not_one_document_fits_is_told(main: Main, budget: str, unit: str) -> None:
    ended = main(f"budget={budget}", "tracking=none", "hydra.run.dir=out")
    out = " ".join(ended.out.split())
    told = re.search(rf"50 queries in which not one document fits into the budget; it takes \S+ {unit}: (\S+)", out)
    assert told
    enough = main(told[1].rstrip(","), "tracking=none", "hydra.run.dir=out2")
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


def test_without_judgments_and_with_a_live_reranker_there_is_nothing_to_measure_by(
    main: Main, tiny_cross_encoder: str
) -> None:
    live = ["reranker=cross_encoder", f"reranker.model={tiny_cross_encoder}", "reranker.cache_dir=null"]
    ended = main("dataset.split=null", *live, "tracking=none")
    assert ended.code == 2
    assert "dataset.split=null: without judgments a run is measured by its agreement" in ended.err
