"""ragtune explain: where a document came from, when it was scored or why not."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from experiments.compare.run_folder import find_runs, rankings_of, traces_of
from ragtune.cli.main import main


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
    assert f"sent in batch {sent[scored]} of {len(batches)}, scored 0." in out
    assert "never sent: the request ended with " in out
    assert "a score would have cost 1 documents, 1 calls" in out
    places = [line.split() for line in out.splitlines() if line.startswith("place after each batch")]
    assert [int(words[-3]) for words in places] == [ranking.index(scored) + 1, ranking.index(missed) + 1]
    assert "warning" not in out


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
