"""A run's files: all or none, and the same bytes for the same results."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from experiments.evaluate.curves import Bootstrap, Curve, Steps, curve
from experiments.evaluate.measures import Measures
from experiments.evaluate.outcomes import Outcomes
from experiments.evaluate.record import QueryRecord
from experiments.evaluate.summary import Summary
from experiments.prepare.score_table import write_table
from experiments.publish import files as outputs
from experiments.publish.files import Results, picture_of, read_summary, write_results, write_summary, write_yaml
from ragtune.core.errors import DatasetError
from ragtune.core.tokens import count_tokens
from ragtune.rerankers.models.architecture import ARCHITECTURES

FILES = ["config.yaml", "curve.csv", "curve.png", "per_query.parquet", "run.trec", "summary.json", "traces.jsonl.gz"]


def drawn_of(run: SimpleNamespace, names: list[str]) -> Curve:
    steps = Steps.of(run.records, Measures(names, run.dataset.qrels))
    return curve(steps, names, Bootstrap(resamples=20, level=0.95, seed=0))


def results_of(run: SimpleNamespace, drawn: Curve, summary: Summary) -> Results:
    records = {record.query_id: record for record in run.records}
    return Results(run.config, run.dataset, records, Outcomes.of(run.records), drawn, summary)


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


def test_every_file_is_written(folder: Path, results: Results) -> None:
    write_results(folder, results)
    assert names(folder) == FILES


def test_a_picture_that_is_drawn_later_is_the_one_that_would_have_been_there(folder: Path, results: Results) -> None:
    results = replace(results, depth_line={0: 0.25, 4: 0.5})
    write_results(folder, results)
    at_once = (folder / "curve.png").read_bytes()
    write_results(folder, results, picture=False)
    assert names(folder) == [name for name in FILES if name != "curve.png"]
    assert picture_of(folder).read_bytes() == at_once
    assert names(folder) == FILES


def test_the_run_file_holds_strictly_decreasing_scores_in_rank_order(folder: Path, results: Results) -> None:
    write_results(folder, results)
    lines = [line.split() for line in (folder / "run.trec").read_text().splitlines()]
    mine = [line for line in lines if line[0] == "q2"]
    assert [line[2] for line in mine] == results.records["q2"].ranking
    assert [int(line[3]) for line in mine] == list(range(1, 13))
    assert [int(line[4]) for line in mine] == list(range(12, 0, -1))


def test_an_id_with_whitespace_reaches_no_run_file(folder: Path, results: Results) -> None:
    first = results.records["q1"]
    odd = replace(QueryRecord.from_line(first.to_line()), doc_ids=["of another collection", *first.doc_ids[1:]])
    with pytest.raises(DatasetError, match="retrieved document 'of another collection': an id holds no whitespace"):
        write_results(folder, replace(results, records={**results.records, "q1": odd}))
    assert names(folder) == []


def test_traces_are_one_json_line_a_query(folder: Path, results: Results) -> None:
    write_results(folder, results)
    with gzip.open(folder / "traces.jsonl.gz", "rt") as lines:
        assert [json.loads(line)["query_id"] for line in lines] == ["q1", "q2", "q3", "q4"]


def test_the_query_table_holds_measures_costs_and_reasons(folder: Path, results: Results) -> None:
    write_results(folder, results)
    table = pd.read_parquet(folder / "per_query.parquet")
    assert table["query_id"].tolist() == ["q1", "q2", "q3", "q4"]
    assert table["charged_docs"].tolist() == [4.0] * 4
    assert table["stop_reason"].tolist() == ["budget_exhausted"] * 4
    assert table["nDCG@10"].tolist() == results.curve.per_query[:, -1, 0].tolist()


def test_the_tables_are_byte_for_byte_what_pandas_writes(folder: Path, results: Results) -> None:
    unjudged = replace(results.dataset, qrels={q: v for q, v in results.dataset.qrels.items() if q != "q2"})
    drawn = replace(results.curve, per_query=results.curve.per_query[:-1])
    write_results(folder, replace(results, dataset=unjudged, curve=drawn))
    table = pd.read_parquet(folder / "per_query.parquet")
    assert table["AP"].isna().tolist() == [False, True, False, False]
    table.to_parquet(folder / "again.parquet", index=False)
    assert (folder / "again.parquet").read_bytes() == (folder / "per_query.parquet").read_bytes()
    text = pd.read_csv(folder / "curve.csv").to_csv(index=False, lineterminator="\n")
    assert text == (folder / "curve.csv").read_text()


def test_the_curve_table_has_one_row_a_cost_step(folder: Path, results: Results) -> None:
    write_results(folder, results)
    table = pd.read_csv(folder / "curve.csv")
    assert table["documents"].tolist() == results.curve.docs.tolist() == [0, 2, 4]
    assert {"calls", "tokens", "milliseconds", "nDCG@10", "nDCG@10_low", "nDCG@10_high"} <= set(table.columns)


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


def test_the_same_results_are_the_same_bytes(tmp_path: Path, results: Results) -> None:
    digests = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_results(tmp_path / name, results)
        digests.append([hashlib.sha256((tmp_path / name / file).read_bytes()).hexdigest() for file in FILES])
    assert digests[0] == digests[1]


@pytest.mark.parametrize("failing", ["_write_records", "draw_curve", "curve_table"])
def test_a_full_disk_leaves_nothing_half_written(
    folder: Path, results: Results, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def full(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(outputs, failing, full)
    with pytest.raises(OSError, match="No space left"):
        write_results(folder, results)
    assert names(folder) == []


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


def test_a_summary_is_replaced_whole(folder: Path, make_summary: Callable[..., Summary]) -> None:
    write_summary(folder, make_summary(seed=1))
    write_summary(folder, make_summary(seed=2))
    assert read_summary(folder) == make_summary(seed=2)
    assert names(folder) == ["summary.json"]


def test_no_summary_means_no_complete_run(folder: Path) -> None:
    assert read_summary(folder) is None


def test_a_full_disk_is_told_with_the_file_that_has_no_room(tmp_path: Path) -> None:
    config, table = tmp_path / "config.yaml", tmp_path / "scores.csv"
    config.symlink_to("/dev/full")
    (tmp_path / ".scores.csv").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space") as told:
        write_yaml(config, {"k": 10})
    assert told.value.filename == str(config)
    with pytest.raises(OSError, match="No space") as told:
        write_table(table, [("q", "d", 0.5)], {})
    assert told.value.filename == str(table)
