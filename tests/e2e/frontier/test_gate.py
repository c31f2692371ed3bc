"""ragtune gate and explain: may a run replace another, and why is a document where it is."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from experiments.compare.gate import FINE, UNDECIDED, WORSE
from experiments.compare.runs import find_runs, rankings_of, traces_of
from ragtune.cli.main import main


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


def test_a_rise_of_cost_is_worse_however_good_the_quality(
    two_runs: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gate", str(two_runs.ours), str(two_runs.fixed), "--max-loss", "1"]) == WORSE
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
