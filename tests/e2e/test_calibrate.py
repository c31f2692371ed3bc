"""ragtune calibrate, from judgments or grades, and what ragtune serve makes of its file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from serve_process import serving

from ragtune import BudgetedReranker
from ragtune.cli.main import main
from ragtune.rerankers.calibration import Calibration
from ragtune.rerankers.http.reranker import HttpReranker
from tests.support.llm_server import LLMServer


def test_recorded_scores_and_judgments_become_a_file_that_serve_takes(
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    llm_server: LLMServer,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGTUNE_CACHE", environment["RAGTUNE_CACHE"])
    assert main(["calibrate", "--model", "test"]) == 0
    (file,) = Path("results/calibration").glob("*.json")
    out = capsys.readouterr().out
    found = Calibration.load(file)
    before, after = re.findall(r"calibration error +([.\d]+) +([.\d]+)", out)[0]
    assert (float(before), float(after)) == (round(found.before.ece, 3), round(found.after.ece, 3))
    assert found.after.ece < found.before.ece
    url = llm_server.rerank_url("cohere")
    texts = ["Ships have sails.", "Statins lower cholesterol."]
    raw = BudgetedReranker(HttpReranker(url, "test", cache_dir=None), docs=2).rank("lower cholesterol", texts)
    options = ["--store", "memory", "--model", url, "--upstream-model", "test", "--calibration", str(file)]
    with serving(*options) as server:
        results = server.rank("lower cholesterol", texts)["results"]
    assert [one["index"] for one in results] == [one.index for one in raw]
    assert [one["relevance_score"] for one in results] == pytest.approx(found([one.score for one in raw]).tolist())


def test_judgments_of_some_candidates_and_none_at_all(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGTUNE_CACHE", environment["RAGTUNE_CACHE"])
    assert main(["calibrate", "--relevant", "2", "--judged-only", "--out", "made.json"]) == 0
    graded = Calibration.load("made.json")
    assert main(["calibrate", "--out", "made.json"]) == 0
    every = Calibration.load("made.json")
    assert 0 < graded.relevant < every.relevant
    assert graded.documents < every.documents
    capsys.readouterr()
    assert main(["calibrate", "dataset.split=null", "--out", "made.json"]) == 2
    assert "judgments" in capsys.readouterr().err
