"""What the prompt pipeline attaches without a language model, without a reranker and as on a fresh install."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def script() -> object:
    spec = importlib.util.spec_from_file_location("prompt_quality_script", ROOT / "scripts" / "prompt_quality.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    module = script()
    monkeypatch.setattr("sys.argv", ["prompt_quality.py", *arguments])
    return int(module.main())  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("reranker", "precision", "recall", "bullets", "notices", "held"),
    [
        ("none", 0.4, 0.7, 0.5, 0.7, 0.7),
        ("latent", 0.6, 0.8, 0.6, 0.9, 0.85),
        ("without_model", 0.6, 0.8, 0.7, 0.9, 0.85),
    ],
)
def test_the_table_has_precision_and_notices_and_no_bullet_is_a_stranger(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    reranker: str,
    precision: float,
    recall: float,
    bullets: float,
    notices: float,
    held: float,
) -> None:
    assert run(monkeypatch, "--reranker", reranker) == 0
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.split("\n")[2:]]
    queries, seen, held_out, unseen, answered = (dict(zip(lines[0][1:], line[1:], strict=True)) for line in lines[2:7])
    assert (queries["queries"], queries["strangers"]) == ("50", "0")
    found = [float(queries[name]) for name in ("precision", "recall", "relevant bullets")]
    assert all(value >= least for value, least in zip(found, (precision, recall, bullets), strict=True)), found
    assert float(queries["false notices"]) < 0.05
    for row, least in ((seen, notices), (held_out, notices), (unseen, held)):
        assert float(row["notices"]) >= least
    assert float(unseen["attachments"]) <= 2
    assert answered["queries"] == "26"
    assert float(answered["recall"]) > 0.9
    assert float(answered["false notices"]) < 0.1


def test_a_file_of_other_lines_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "wrong.jsonl").write_text(json.dumps({"text": "no half"}))
    assert run(monkeypatch, "--reranker", "none", "--uncovered", str(tmp_path / "wrong.jsonl")) == 2
    assert "expected JSON lines with 'text' and 'half'" in capsys.readouterr().err
