"""Parts whose ids or scales do not match are refused or told of, by every command and wherever figures stand."""

import argparse
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from command_line import ROOT

from experiments.commands import advise, compare, study
from experiments.publish.files import read_summary
from ragtune.core.errors import ConfigError
from ragtune.data.runs.runfile import read_run

DEMO = ROOT / "datasets" / "demo"
SCORES = DEMO / "scores" / "minilm.parquet"
FIRST_STAGE = ("experiment=fixed_depth", "reranker=noop", "budget=zero")
Main = Callable[..., SimpleNamespace]


def write_run(file: Path, queries: int, form: str = "{}", doc_form: str = "{}", depth: int | None = 20) -> str:
    """A run of the first demo queries: the best scored documents of each."""
    run = read_run(SCORES, needs_scores=True)
    rows = [(query_id, doc_id) for query_id in list(run)[:queries] for doc_id in list(run.scores(query_id))[:depth]]
    lines = (f"{form.format(q)} Q0 {doc_form.format(d)} {i} {-i} x\n" for i, (q, d) in enumerate(rows, 1))
    file.write_text("".join(lines))
    return f"retriever.paths={file}"


def call(command: ModuleType, *arguments: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    done: int = command.run(
        parser.parse_args(arguments, argparse.Namespace(command=f"ragtune {command.__name__.rpartition('.')[2]}"))
    )
    return done


@pytest.fixture
def partial(tmp_path: Path) -> tuple[str, str]:
    """A first stage that covers 2 of the 50 queries."""
    return "retriever=runs", write_run(tmp_path / "two.run", 2)


GAP = "48 of 50 judged queries are missing in run two.run"


def test_a_run_without_any_of_the_queries_is_refused_with_an_id_of_each_side(main: Main, tmp_path: Path) -> None:
    ended = main("retriever=runs", write_run(tmp_path / "other.run", 50, form="{}.0"), *FIRST_STAGE)
    assert ended.code == 2
    assert "none of the 50 judged queries, e.g. " in ended.err
    assert "is in run other.run, which has 50, e.g. " in ended.err
    assert "look like the same id: one has '.0' behind it" in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_run_that_covers_few_queries_says_so_wherever_figures_stand(
    main: Main, partial: tuple[str, str], tmp_path: Path, empty_store: Path
) -> None:
    store = f"tracking.uri=sqlite:///{shutil.copy(empty_store, tmp_path)}"
    ended = main(*partial, *FIRST_STAGE, f"hydra.run.dir={tmp_path}/out", store, tracked=True)
    assert ended.code == 0
    said = " ".join(ended.out.split())
    assert f"warning: {GAP}" in said
    assert "it has 2, 2 of them match" in said
    assert "warning: 48 of 50 queries have no candidates" in said
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    join = next(join for join in summary["joins"] if join["right"] == "run two.run")
    assert (join["left_size"], join["right_size"], join["matched"]) == (50, 2, 2)
    assert any(f"{n} {what}".startswith(GAP) for what, n in summary["warnings"].items())

    from mlflow import MlflowClient

    tracked = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db").get_run(summary["mlflow_run_id"]).data
    assert GAP in tracked.tags["warnings"]
    assert tracked.metrics["matched/judged queries in run two.run"] == 0.04


def test_advice_says_that_coverage_is_the_problem(partial: tuple[str, str], tmp_path: Path) -> None:
    said = "the first stage has candidates for only 2 of 50 queries; add the other 48 to its run, or leave them out"
    with pytest.raises(ConfigError, match=said) as error:
        call(advise, *partial, "--jobs", "1", "--out", str(tmp_path / "out"))
    assert "more" not in str(error.value)


def test_advice_without_any_quality_says_how_many_queries_have_candidates(tmp_path: Path) -> None:
    paths, scores = write_run(tmp_path / "two.run", 2), read_run(SCORES, needs_scores=True)
    found = {line.split()[2] for line in (tmp_path / "two.run").read_text().splitlines()}
    other = next(doc_id for doc_id in scores.doc_ids if doc_id not in found)
    (tmp_path / "qrels.tsv").write_text("".join(f"{query_id}\t{other}\t1\n" for query_id in scores))
    said = "there is no quality to keep; 48 of 50 queries have no candidates$"
    with pytest.raises(ConfigError, match=said):
        call(advise, "retriever=runs", paths, f"+dataset.qrels={tmp_path / 'qrels.tsv'}", "--jobs", "1")


def test_a_comparison_repeats_what_its_runs_lack(
    main: Main, partial: tuple[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        assert main(*partial, *FIRST_STAGE, f"hydra.run.dir={tmp_path}/{name}").code == 0
    folders = [str(tmp_path / name) for name in ("a", "b")]
    assert call(compare, *folders, "--no-report", "--out", str(tmp_path / "out")) == 0
    said = capfd.readouterr()
    for name in ("a", "b"):
        assert f"warning: run {name}: {GAP}" in said.err
        assert f"run {name}: {GAP}" in (tmp_path / "out" / "compare.md").read_text()


def test_a_study_repeats_what_its_collections_lack(
    partial: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = tmp_path / "grid.yaml"
    grid.write_text(
        "name: small\nbudgets: [5]\nmeasures: [nDCG@10]\nreport: false\njobs: 1\nresamples: 10\n"
        "permutations: 9\n"
        f"collections: [{{name: two, overrides: [{', '.join(partial)}]}}]\n"
        "policies: [{name: fixed, label: fixed depth, kind: baseline, overrides: [experiment=fixed_depth]}]\n"
    )
    for _ in range(2):  # replayed, and from the finished cells
        assert call(study, "--config", str(grid), "--out", str(tmp_path / "out")) == 0
        assert f"warning: two: {GAP}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("queries", "form", "doc_form", "said"),
    [
        (50, "{}-x", "{}", "none of the 50 judged queries.*is in score table s.run.*'-x' behind it"),
        (50, "{}", "d/{}", "holds no score for query .* it holds [0-9]+ scores, and of the .* asked for 0; .*'d/'"),
    ],
)
def test_score_tables_say_how_much_they_hold(
    main: Main, tmp_path: Path, queries: int, form: str, doc_form: str, said: str
) -> None:
    write_run(tmp_path / "s.run", queries, form, doc_form, depth=None)
    ended = main(f"reranker.scores={tmp_path / 's.run'}", "reranker.scale=rank", "budget=20", "experiment=fixed_depth")
    assert ended.code == 2
    assert re.search(said, ended.err)


def test_a_signal_that_knows_nothing_of_the_collection_is_refused(main: Main, tmp_path: Path) -> None:
    file = tmp_path / "clicks.csv"
    file.write_text("query_id,doc_id,score\nother,nobody,1\n")
    ended = main("signal=table", f"signal.table.path={file}", "signal.table.by=pair", "budget=zero")
    assert ended.code == 2
    assert "is in signal table clicks.csv, which has 1, e.g. " in ended.err


def beir(folder: Path, grades: str, queries: str = "1") -> str:
    (folder / "qrels").mkdir(parents=True)
    docs: list[dict[str, Any]] = [{"_id": f"d{i}", "text": f"text {i}"} for i in range(3)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    asked = (json.dumps({"_id": query, "text": "text 1"}) + "\n" for query in queries.split())
    (folder / "queries.jsonl").write_text("".join(asked))
    (folder / "qrels" / "test.tsv").write_text(grades)
    return f"dataset.path={folder}"


@pytest.mark.parametrize(
    ("grades", "said"),
    [
        ("1.0\td1\t1\n", "none of the 1 judged queries, e.g. '1.0', is in the queries, which has 1, e.g. '1'; '1.0'"),
        ("1\tD1\t1\n", "none of the 1 judged documents, e.g. 'D1', is in the corpus, which has 3, e.g. 'd0'"),
        ("1\td1\t1\nq2\td1\t1\n", "1 judged queries have no text, e.g. 'q2'; 1 of 2 have one"),
    ],
)
def test_judgments_of_other_ids_are_refused(main: Main, tmp_path: Path, grades: str, said: str) -> None:
    ended = main("dataset=beir", beir(tmp_path / "c", grades), *FIRST_STAGE)
    assert ended.code == 2
    assert said in ended.err


def test_where_nothing_ranked_is_relevant_the_ids_are_asked_about(main: Main, tmp_path: Path) -> None:
    path = beir(tmp_path / "c", "1\td1\t0\n1\td2\t0\n")
    ended = main("dataset=beir", path, *FIRST_STAGE, f"hydra.run.dir={tmp_path}/out")
    summary = read_summary(tmp_path / "out")
    assert ended.code == 0
    assert any("rank nothing that is judged relevant" in what for what in summary.warnings)


@pytest.mark.parametrize("grade", ["good", "1.5", "99999999999"])
def test_a_bad_grade_names_file_line_and_value(main: Main, tmp_path: Path, grade: str) -> None:
    ended = main("dataset=beir", beir(tmp_path / "c", f"1\td1\t1\n1\td2\t{grade}\n"), *FIRST_STAGE)
    assert (ended.code, len(ended.err.splitlines())) == (2, 1)
    assert "qrels/test.tsv:2: " in ended.err
    assert grade in ended.err


def test_scores_that_are_probably_on_another_scale_are_a_warning_in_every_place(main: Main, tmp_path: Path) -> None:
    run = read_run(SCORES, needs_scores=True)
    rows = [(q, d, 2 * score - 1) for q in run for d, score in run.scores(q).items()]
    (tmp_path / "cosine.run").write_text("".join(f"{q} Q0 {d} 1 {score} x\n" for q, d, score in rows))
    scores = (f"reranker.scores={tmp_path}/cosine.run", "reranker.scale=logit", "dataset.every=10")
    ended = main(*scores, "budget=5", f"hydra.run.dir={tmp_path}/out")
    assert ended.code == 0
    doubt = "17050 scores with a doubtful scale, reranker.scale=logit: almost all scores of "
    assert f"warning: {doubt}" in " ".join(ended.out.split())
    assert "reranker.scale=" not in ended.err  # it stands there once
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert any(f"{n} {what}".startswith(doubt) for what, n in summary["warnings"].items())
