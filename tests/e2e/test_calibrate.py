"""ragtune calibrate, from judgments or grades, and what ragtune serve makes of its file."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from serve_process import serving

from ragtune.cli.main import main
from ragtune.facade.calibration import Calibration


def test_recorded_scores_and_judgments_become_a_file_that_serve_takes(
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tiny_cross_encoder: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGTUNE_CACHE", environment["RAGTUNE_CACHE"])
    assert main(["calibrate", "--model", tiny_cross_encoder]) == 0
    (file,) = Path("results/calibration").glob("*.json")
    out = capsys.readouterr().out
    found = Calibration.load(file)
    before, after = re.findall(r"calibration error +([.\d]+) +([.\d]+)", out)[0]
    assert found.before is not None
    assert found.after is not None
    assert (float(before), float(after)) == (round(found.before.ece, 3), round(found.after.ece, 3))
    assert found.after.ece < found.before.ece
    texts = ["Ships have sails.", "Statins lower cholesterol."]
    with serving("--store", "memory", "--model", tiny_cross_encoder) as plain:
        raw = plain.rank("lower cholesterol", texts)["results"]
    with serving("--store", "memory", "--model", tiny_cross_encoder, "--calibration", str(file)) as server:
        results = server.rank("lower cholesterol", texts)["results"]
    assert [one["index"] for one in results] == [one["index"] for one in raw]
    assert [one["relevance_score"] for one in results] == pytest.approx(
        found([one["relevance_score"] for one in raw]).tolist()
    )


def test_grades_of_ragtune_label_count_without_the_documents_that_have_none(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGTUNE_CACHE", environment["RAGTUNE_CACHE"])
    assert main(["label", "--csv", "sheet.csv", "--labels", "12", "--out", "labels"]) == 0
    with Path("sheet.csv").open(newline="") as sheet:
        rows = list(csv.DictReader(sheet))
    with Path("sheet.csv").open("w", newline="") as sheet:
        writer = csv.DictWriter(sheet, list(rows[0]))
        writer.writeheader()
        writer.writerows(row | {"grade": number % 2} for number, row in enumerate(rows))
    assert main(["label", "--csv", "sheet.csv", "--out", "labels"]) == 0
    capsys.readouterr()
    assert main(["calibrate", "dataset.qrels=labels/qrels.tsv", "--out", "made.json"]) == 0
    assert (
        json.loads(Path("made.json").read_text())["pairs"]
        == json.loads(Path("labels/decision.json").read_text())["labels"]
    )
    assert main(["calibrate", "dataset.qrels=null", "--out", "made.json"]) != 0
    assert "judgments" in capsys.readouterr().err
