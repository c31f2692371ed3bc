"""What the prompt pipeline attaches without a language model and without a reranker; with one: docs/superprompt.md."""

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


def test_the_table_has_precision_and_notices_and_no_bullet_is_a_stranger(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--reranker", "none", "--every", "5") == 0
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.split("\n")[2:]]
    head, queries, seen, held_out = lines[0], lines[2], lines[3], lines[4]
    covered = dict(zip(head[1:], queries[1:], strict=True))
    assert (covered["queries"], covered["strangers"]) == ("10", "0")
    assert float(covered["precision"]) > 0.3
    for row in (seen, held_out):
        assert float(dict(zip(head[1:], row[1:], strict=True))["notices"]) >= 0.7


def test_a_file_of_other_lines_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "wrong.jsonl").write_text(json.dumps({"text": "no half"}))
    assert run(monkeypatch, "--reranker", "none", "--uncovered", str(tmp_path / "wrong.jsonl")) == 2
    assert "expected JSON lines with 'text' and 'half'" in capsys.readouterr().err
