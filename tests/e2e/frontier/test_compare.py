"""ragtune compare, gate and explain: runs side by side, may one replace another, why is a document in its place."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pandas as pd
import pytest

from experiments.compare.gate import FINE, UNDECIDED, WORSE
from experiments.compare.runs import find_runs, rankings_of, study_of_runs, traces_of
from ragtune.cli.main import main
from ragtune.core.errors import ConfigError, InputError

Run = Callable[..., SimpleNamespace]


def compare(run: Run, cwd: Path, *arguments: object, **environment: str) -> SimpleNamespace:
    return run(*map(str, arguments), "--out", "out", script="scripts/compare.py", cwd=cwd, **environment)


def test_two_folders_give_tables_and_report(two_runs: SimpleNamespace, run_here: Run, tmp_path: Path) -> None:
    ended = compare(run_here, tmp_path, two_runs.fixed, two_runs.ours)
    assert ended.code == 0, ended.err
    names = {file.name for file in (tmp_path / "out").iterdir()}
    assert {"compare.md", "compare.csv", "compare.parquet", "per_query.parquet", "policies.csv"} <= names
    assert {"report.html", "compare.tex"} <= names
    paper = (tmp_path / "out" / "compare.tex").read_text()
    assert r"fixed\_depth" in paper
    assert r"$^{\blacktriangle}$" in paper
    for body in re.findall(r"\\begin\{tabular\}\{(l\w+)\}(.*?)\\end\{tabular\}", paper, re.DOTALL):
        rows = re.findall(r"^ +(?!\\)(.*) \\\\$", body[1], re.MULTILINE)
        assert len(rows) == 3
        assert {len(re.split(r"(?<!\\)&", row)) for row in rows} == {len(body[0])}
    table = pd.read_csv(tmp_path / "out" / "compare.csv").set_index("policy")
    for name, folder in (("fixed", two_runs.fixed), ("ours", two_runs.ours)):
        summary = json.loads((folder / "summary.json").read_text())
        assert table.loc[name, "nDCG@10"] == pytest.approx(summary["measures"]["nDCG@10"], abs=1e-5)
        assert table.loc[name, "docs_mean"] == pytest.approx(summary["cost_per_query"]["charged"]["docs"])
    assert table.loc["fixed", "kind"] == "baseline"
    assert pd.isna(table.loc["fixed", "nDCG@10_p_t"])
    assert 0 <= table.loc["ours", "nDCG@10_p_t_holm"] <= 1


def test_a_tracked_run_is_found_by_its_id(two_runs: SimpleNamespace, run_here: Run, tmp_path: Path) -> None:
    run_id = json.loads((two_runs.ours / "summary.json").read_text())["mlflow_run_id"]
    ended = compare(run_here, tmp_path, two_runs.fixed, run_id, "--no-report", MLFLOW_TRACKING_URI=two_runs.uri)
    assert ended.code == 0, ended.err
    table = pd.read_csv(tmp_path / "out" / "compare.csv")
    assert table["policy"].tolist() == ["fixed", run_id[:8]]
    summary = json.loads((two_runs.ours / "summary.json").read_text())
    assert table["nDCG@10"].iloc[1] == pytest.approx(summary["measures"]["nDCG@10"], abs=1e-5)


def test_an_unknown_id_is_refused_with_the_address_and_no_store_is_made(
    two_runs: SimpleNamespace, run_here: Run, tmp_path: Path
) -> None:
    ended = compare(run_here, tmp_path, two_runs.fixed, "0" * 32, MLFLOW_TRACKING_URI=two_runs.uri)
    assert ended.code == 2
    assert two_runs.uri in ended.err
    ended = compare(run_here, tmp_path, two_runs.fixed, "0" * 32)
    assert ended.code == 2
    assert "neither a run folder nor a run tracked" in ended.err
    assert not list(tmp_path.rglob("*.db"))


@pytest.mark.parametrize(
    ("summary", "said"),
    [
        ({"dataset": "other/test"}, "dataset of fixed is 'demo/test', of altered 'other/test'"),
        ({"measures": {"P@3": 0.1}}, "share no measure"),
    ],
)
def test_runs_that_measure_different_things_are_refused(
    two_runs: SimpleNamespace, tmp_path: Path, summary: dict[str, object], said: str
) -> None:
    altered = Path(shutil.copytree(two_runs.ours, tmp_path / "altered"))
    file = altered / "summary.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | summary))
    with pytest.raises(ConfigError, match=said):
        study_of_runs(find_runs([str(two_runs.fixed), str(altered)], tmp_path), "c")


def test_one_run_and_an_unfinished_run_are_refused(two_runs: SimpleNamespace, run_here: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for arguments, said in (
        ((two_runs.fixed,), "at least two runs"),
        ((two_runs.fixed, "empty"), "holds no complete run"),
    ):
        ended = compare(run_here, tmp_path, *arguments)
        assert ended.code == 2
        assert said in ended.err


@pytest.fixture
def damaged(two_runs: SimpleNamespace, tmp_path: Path) -> Callable[[str, bytes | None], Path]:
    """A copy of the second run in which one file holds something else, or is missing."""

    def make(name: str, content: bytes | None) -> Path:
        folder = tmp_path / "damaged"
        shutil.copytree(two_runs.ours, folder)
        (folder / name).unlink()
        if content is not None:
            (folder / name).write_bytes(content)
        return folder

    return make


FILES = ["summary.json", "config.yaml", "curve.csv", "per_query.parquet"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *((name, b"\x00\xff{[:") for name in FILES),
        ("curve.csv", None),
        ("summary.json", b"{}"),
        ("config.yaml", b"seed: 0\n"),
        ("curve.csv", b"documents,documents_mean\n"),
    ],
)
def test_the_message_names_the_file(
    two_runs: SimpleNamespace,
    damaged: Callable[[str, bytes | None], Path],
    tmp_path: Path,
    name: str,
    content: bytes | None,
) -> None:
    folder = damaged(name, content)
    with pytest.raises(InputError) as refused:
        study_of_runs(find_runs([str(two_runs.fixed), str(folder)], tmp_path), "python x")
    assert name in str(refused.value)
    assert str(folder) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_table_without_a_column_is_refused(
    two_runs: SimpleNamespace, damaged: Callable[[str, bytes | None], Path], tmp_path: Path
) -> None:
    for column in ("judged", "charged_docs"):
        folder = damaged("per_query.parquet", None)
        table = pd.read_parquet(two_runs.ours / "per_query.parquet").drop(columns=column)
        table.to_parquet(folder / "per_query.parquet")
        with pytest.raises(InputError, match=r"per_query\.parquet") as refused:
            study_of_runs(find_runs([str(two_runs.fixed), str(folder)], tmp_path), "python x")
        assert repr(column) in str(refused.value)
        shutil.rmtree(folder)


def test_runs_whose_folders_are_called_alike_are_told_apart(two_runs: SimpleNamespace, tmp_path: Path) -> None:
    for sweep in ("sw1", "sw2"):
        shutil.copytree(two_runs.ours, tmp_path / sweep / "0")
    given = [str(tmp_path / "sw1" / "0"), str(tmp_path / "sw2" / "0")]
    study = study_of_runs(find_runs(given, tmp_path), "python x")
    assert [policy.name for policy in study.policies] == given
    assert len({policy.label for policy in study.policies}) == 2
    with pytest.raises(InputError, match="given twice"):
        find_runs([given[0], f"{given[1]}/../../sw1/0"], tmp_path)


def test_runs_that_have_failed_or_read_other_data_are_compared_with_a_warning(
    two_runs: SimpleNamespace, run_here: Run, damaged: Callable[[str, bytes | None], Path], tmp_path: Path
) -> None:
    summary = json.loads((two_runs.ours / "summary.json").read_text())
    summary["failures"] |= {"status": "failed", "first_error": "KeyError: 'x'"}
    file = next(iter(summary["inputs"]))
    summary["inputs"][file] = "0" * 64
    folder = damaged("summary.json", json.dumps(summary).encode())
    ended = compare(run_here, tmp_path, two_runs.fixed, folder, "--no-report")
    assert ended.code == 0
    failed, changed = ended.err.splitlines()
    assert failed == "warning: run damaged has failed, first error: KeyError: 'x'"
    assert changed == f"warning: {file} has changed between the runs {two_runs.fixed.name} and damaged"
    assert "- run damaged has failed" in ended.out


def test_the_exit_code_is_the_verdict_and_the_line_gives_the_reason(
    two_runs: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fixed, ours = str(two_runs.fixed), str(two_runs.ours)
    assert main(["gate", fixed, ours]) == FINE
    assert capsys.readouterr().out.startswith("fine: nDCG@10 +0.0")
    junit = tmp_path / "gate.xml"
    assert main(["gate", ours, fixed, "--max-rise", "9", "--junit", str(junit)]) == WORSE
    out = capsys.readouterr().out
    assert out.startswith("worse: nDCG@10 -0.0")
    assert "to clear an equal run takes about" in out
    suite = ElementTree.parse(junit).getroot()  # noqa: S314  # we wrote it
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    assert suite[0].find("failure").get("message") in out
    assert main(["gate", ours, fixed, "--max-rise", "9", "--max-loss", "0.04"]) == UNDECIDED
    assert capsys.readouterr().out.startswith("cannot tell: ")
    assert main(["gate", ours, fixed, "--max-loss", "1"]) == WORSE
    assert capsys.readouterr().out.startswith("worse: documents a query rise by ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--measure", "MAP"], "--measure MAP: run fixed has nDCG@10, RR@10, AP, R@100"),
        (["--unit", "joules"], "--unit joules: run fixed was charged no joules"),
        (["--unit", "usd"], "--unit usd: run fixed was charged no dollars"),
        (["--max-loss", "-1"], "--max-loss"),
    ],
)
def test_what_cannot_be_judged_is_refused(
    two_runs: SimpleNamespace, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["gate", str(two_runs.fixed), str(two_runs.ours), *options]) == 64  # 2 is a verdict
    out, err = capsys.readouterr()
    assert (out, message in err) == ("", True)
    with pytest.raises(SystemExit, match="64"):
        main(["gate", "base", "candidate", "--limit", "3"])


def test_a_scored_and_a_missed_document_are_explained_as_the_run_has_them(
    two_runs: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run,) = find_runs([str(two_runs.ours)], tmp_path)
    query = run.queries.index[0]
    ranking = rankings_of(run)[query]
    batches = [event["details"]["doc_ids"] for event in traces_of(run)[query]["events"] if event["action"] == "propose"]
    sent = {doc_id: number for number, batch in enumerate(batches, start=1) for doc_id in batch}
    scored, missed = (next(d for d in ranking if (d in sent) == is_sent) for is_sent in (True, False))
    for doc_id in (scored, missed):
        assert main(["explain", str(two_runs.ours), query, doc_id]) == 0
    out = capsys.readouterr().out
    assert f"batch {sent[scored]} of {len(batches)}: scored 0." in out
    assert "never sent: the request ended with " in out
    assert "a score would have cost 1 document, 1 call, " in out
    places = [line.split() for line in out.splitlines() if line.startswith("place after each batch")]
    assert [int(words[-3]) for words in places] == [ranking.index(scored) + 1, ranking.index(missed) + 1]
    assert "warning" not in out
    assert main(["explain", str(two_runs.ours), query]) == 0
    first, *rest, end = capsys.readouterr().out.splitlines()
    assert (first, len(rest)) == (f"query {query}", len(batches))
    assert rest[0].startswith(f"batch 1: {len(batches[0])} documents, {len(batches[0])} scored; paid so far: ")
    assert "; why: " in rest[0]
    assert end.startswith("ended: ")


def test_what_the_run_lacks_is_refused_and_another_ranking_is_told(
    two_runs: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, message in ((["nobody", "d"], "query 'nobody'"), (["q01", "nothing"], "document 'nothing': not among")):
        assert main(["explain", str(two_runs.ours), *words]) == 2
        assert message in capsys.readouterr().err
    changed = Path(shutil.copytree(two_runs.ours, tmp_path / "changed"))
    lines = (changed / "run.trec").read_text().splitlines(keepends=True)
    (changed / "run.trec").write_text("".join([lines[1], lines[0], *lines[2:]]))
    assert main(["explain", str(changed), "q01", lines[0].split()[2]]) == 0
    assert capsys.readouterr().out.startswith("warning: this replay ends with another ranking than the run")
