"""ragtune drift and ragtune calibrate: what they make of a log and of judgments, and what ragtune serve makes of it."""

import json
import re
from pathlib import Path

import pytest
from llm_server import LLMServer
from serve_process import serving_here

from ragtune import BudgetedReranker
from ragtune.cli.main import main
from ragtune.rerankers.calibration import Calibration
from ragtune.rerankers.http.reranker import HttpReranker

TEXTS = ["Ships have sails.", "Statins lower cholesterol.", "Aspirin thins blood.", "Cholesterol is a lipid."]


def log_of(file: Path, *grades: list[int]) -> str:
    requests = [{"query": f"what is lipid {at}", "documents": TEXTS} for at in range(3)]
    given = [{**request, "grades": one} for request, one in zip(requests, grades, strict=False)]
    lines = map(json.dumps, [*given, *requests[len(given) :]])
    file.write_text("\n".join(lines), encoding="utf-8")
    return str(file)


def test_each_type_is_compared_with_float32(
    tiny_cross_encoder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    log = log_of(tmp_path / "log.jsonl", [0, 0, 0, 2], [0, 0, 0, 0])
    assert main(["drift", "--model", tiny_cross_encoder, "--log", log, "--dtype", "int8", "bfloat16"]) == 0
    out = capsys.readouterr().out
    assert f"{tiny_cross_encoder}: 3 requests, 12 documents\n" in out
    rows = {name: cells.split() for name, cells in re.findall(r"^(\S.*?) {2,}(.*)$", out, flags=re.MULTILINE)}
    assert re.search(r"^ +fp32 +int8 +bfloat16$", out, flags=re.MULTILINE)
    assert {name: len(cells) for name, cells in rows.items()} == {
        "seconds / 100 documents": 3,
        "rank correlation": 2,
        "top-10 overlap": 2,
        "largest score change": 2,
        "nDCG@10, 1 requests": 3,
    }
    assert rows["top-10 overlap"] == ["1.000", "1.000"]  # of four documents
    assert all(0.0 <= float(change) < 0.02 for change in rows["largest score change"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dtype", "fp8"], "dtype='fp8': allowed are fp32, bfloat16, int8, auto"),
        (["--dtype", "fp32"], "--dtype fp32: means fp32 here; allowed are bfloat16, int8"),
        (["--dtype", "int8", "--max-docs", "3"], "no request fits into --max-docs 3"),
        (["--dtype", "int8", "--log", "none.jsonl"], "none.jsonl: cannot be read"),
        (["--dtype", "int8", "--log", __file__], "line 1: Invalid JSON"),
        (["--dtype", "int8"], "request 1: grades=[1, 0]: allowed are 4 numbers from 0 on"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    log = log_of(tmp_path / "log.jsonl", [1, 0])
    assert main(["drift", "--model", "any", "--log", log, *options]) == 2
    assert message in capsys.readouterr().err


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
    with serving_here(*options) as server:
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
