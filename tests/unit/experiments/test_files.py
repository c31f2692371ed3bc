"""A run's files and their summary: all or none, and the same bytes for the same results."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from experiments.evaluate.curves import Curve, Steps, curve
from experiments.evaluate.measures import Measures
from experiments.evaluate.outcomes import Outcomes, QueryOutcome
from experiments.evaluate.record import QueryRecord
from experiments.evaluate.significance import Bootstrap
from experiments.evaluate.summary import Summary
from experiments.publish.files import Results, picture_of, read_summary, write_results, write_summary
from ragtune.core.errors import DatasetError
from ragtune.core.tokens import count_tokens
from ragtune.rerankers.models.architecture import ARCHITECTURES

FILES = ["config.yaml", "curve.csv", "curve.png", "per_query.parquet", "run.trec", "summary.json", "traces.jsonl.gz"]


def drawn_of(run: SimpleNamespace, names: list[str]) -> Curve:
    steps = Steps.of(run.records, Measures(names, run.dataset.qrels))
    return curve(steps, names, Bootstrap(resamples=20, level=0.95, seed=0))


def results_of(run: SimpleNamespace, drawn: Curve, summary: Summary) -> Results:
    records = {record.query_id: record for record in run.records}
    return Results(run.config, run.dataset, records, Outcomes(map(QueryOutcome.of, run.records)), drawn, summary)


@pytest.fixture
def results(replayed: Callable[..., SimpleNamespace], make_summary: Callable[..., Summary]) -> Results:
    run = replayed("budget.max_reranker_docs=4")
    drawn = drawn_of(run, ["nDCG@10", "AP"])
    return results_of(run, drawn, make_summary(policy="p"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_a_picture_that_is_drawn_later_is_the_one_that_would_have_been_there(folder: Path, results: Results) -> None:
    results = replace(results, depth_line={0: 0.25, 4: 0.5})
    write_results(folder, results)
    at_once = (folder / "curve.png").read_bytes()
    write_results(folder, results, picture=False)
    assert names(folder) == [name for name in FILES if name != "curve.png"]
    assert picture_of(folder).read_bytes() == at_once
    assert names(folder) == FILES


def test_an_id_with_whitespace_reaches_no_run_file(folder: Path, results: Results) -> None:
    first = results.records["q1"]
    odd = replace(QueryRecord.from_line(first.to_line()), doc_ids=["of another collection", *first.doc_ids[1:]])
    with pytest.raises(DatasetError, match="retrieved document 'of another collection': an id holds no whitespace"):
        write_results(folder, replace(results, records={**results.records, "q1": odd}))
    assert names(folder) == []


def test_pandas_reads_its_own_types_and_the_csv_is_byte_for_byte_what_it_writes(folder: Path, results: Results) -> None:
    unjudged = replace(results.dataset, qrels={q: v for q, v in results.dataset.qrels.items() if q != "q2"})
    drawn = replace(results.curve, per_query=results.curve.per_query[:-1])
    write_results(folder, replace(results, dataset=unjudged, curve=drawn))
    table = pd.read_parquet(folder / "per_query.parquet")
    assert table["AP"].isna().tolist() == [False, True, False, False]
    pd.DataFrame(table.to_dict("list")).to_parquet(folder / "again.parquet", index=False)
    pd.testing.assert_frame_equal(table, pd.read_parquet(folder / "again.parquet"))
    text = pd.read_csv(folder / "curve.csv").to_csv(index=False, lineterminator="\n")
    assert text == (folder / "curve.csv").read_text()


def test_a_unit_that_somebody_prices_has_columns_and_a_limit_and_no_other_has(
    folder: Path, replayed: Callable[..., SimpleNamespace], results: Results, make_summary: Callable[..., Summary]
) -> None:
    write_results(folder, results)
    assert not {"flops", "search_units", "joules"} & set(pd.read_csv(folder / "curve.csv"))
    limit = 1e9
    options = ("reranker.architecture=minilm-l6", "reranker.docs_per_search_unit=3", f"budget.max_flops={limit}")
    run = replayed(*options, "budget.max_reranker_docs=null")
    drawn = drawn_of(run, ["nDCG@10"])
    write_results(folder, results_of(run, drawn, make_summary(policy="p")))
    size, corpus = ARCHITECTURES["minilm-l6"], run.dataset.corpus
    tokens = {doc_id: corpus.scored(doc_id, 0.0).token_count for doc_id in corpus.doc_ids}
    table = pd.read_parquet(folder / "per_query.parquet").set_index("query_id")
    for record in run.records:
        query = count_tokens(run.dataset.queries[record.query_id])
        batches = [
            event["details"]["doc_ids"] for event in json.loads(record.trace)["events"] if event["action"] == "propose"
        ]
        flops = sum(size.flops(query + tokens[doc_id]) for batch in batches for doc_id in batch)
        row = table.loc[record.query_id]
        assert row["charged_flops"] == flops <= limit
        assert row["charged_search_units"] == sum(-(-len(batch) // 3) for batch in batches)
        assert row["actual_flops"] == 0.0
    assert set(table["stop_reason"]) == {"budget_exhausted"}
    points = pd.read_csv(folder / "curve.csv")
    assert points["flops"].iloc[-1] == pytest.approx(table.loc[run.dataset.judged, "charged_flops"].mean())
    assert "joules" not in points


def test_a_run_over_an_older_one_is_never_a_mixture_that_looks_complete(
    folder: Path, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_results(folder, results)
    replace, seen = Path.replace, []

    def interrupted(self: Path, target: Path) -> Path:
        seen.append(target.name)
        if len(seen) == 3:
            raise OSError(5, "Input/output error")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(OSError, match="Input/output"):
        write_results(folder, results)
    assert read_summary(folder) is None


def test_the_file_holds_every_field_in_order_and_is_read_back(
    make_summary: Callable[..., Summary], tmp_path: Path
) -> None:
    means = {"measures": {"AP": 0.25}, "difference": {"AP": 0.125}, "interval": {"AP": [0.0, 0.25]}}
    figures = {**means, "p": {"AP": 0.5}, "p_holm": {"AP": 1.0}}
    against = {"full reranking": {"docs_per_query": 9.0, **figures, "agreement": {"overlap": 0.5, "rbo": 0.75}}}
    rewrites = {"per_query": 1.0, "new_docs_per_rewrite": 7.2}
    trust = {"value": 0.5, "correlation": 0.25, "error": 0.05, "queries": 43, "docs_per_query": 20}
    changes: list[dict[str, Any]] = [{}, {"baselines": against}, {"rewrites": rewrites}, {"trust": trust}]
    for summary in (make_summary(**change) for change in changes):
        write_summary(tmp_path, summary)
        assert read_summary(tmp_path) == summary
        written = json.loads((tmp_path / "summary.json").read_text())
        optional = {name: getattr(summary, name) for name in ("baselines", "rewrites", "trust")}
        fields = [name for name in Summary.model_fields if optional.get(name, True)]
        assert list(written) == list(fields)
        assert json.dumps(written) == json.dumps(summary.plain(), allow_nan=False)
    # Amounts that are counts stay whole numbers.
    assert json.dumps(written["cost"]["charged"]).startswith(
        '{"docs": 50, "calls": 12, "tokens": 1824, "latency_ms": 312.0'
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: content["cost"].pop("actual"), r"cost\.actual is missing"),
        (lambda content: content["measures"].clear(), r"measures is \{\}"),
    ],
)
def test_a_damaged_summary_is_refused_by_the_name_of_its_field(
    make_summary: Callable[..., Summary], tmp_path: Path, change: Callable[[dict], object], said: str
) -> None:
    content = make_summary().plain()
    change(content)
    (tmp_path / "summary.json").write_text(json.dumps(content))
    with pytest.raises(DatasetError, match=rf"summary\.json' is damaged: {said}"):
        read_summary(tmp_path)


def test_what_a_later_version_has_written_is_kept(make_summary: Callable[..., Summary], tmp_path: Path) -> None:
    content = make_summary().plain() | {"new": [1]}
    (tmp_path / "summary.json").write_text(json.dumps(content))
    summary = read_summary(tmp_path)
    assert summary.tracked_as("r").plain() == content | {"mlflow_run_id": "r"}
