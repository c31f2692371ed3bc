"""The table of what each stage gains with a language model is what its recorded answers say, under today's pipeline."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
from pathlib import Path

import pytest

from ragtune.llm.cache import AnswerCache

ROOT = Path(__file__).resolve().parents[3]
TABLE = ROOT / "results" / "stages"


def main(monkeypatch: pytest.MonkeyPatch, out: Path, command: list[str]) -> int:
    spec = importlib.util.spec_from_file_location("stages_script", ROOT / "scripts" / "stages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "OUT", out)
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("sys.argv", command)
    return int(module.main())


def command() -> list[str]:
    made_by = re.search(r"made by `python (.+)`", (TABLE / "stages.md").read_text(encoding="utf-8"))
    assert made_by is not None
    return shlex.split(made_by[1])


def test_the_recorded_answers_make_the_committed_table_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert "replay" in command()
    shutil.copytree(TABLE / "answers", tmp_path / "answers")
    assert main(monkeypatch, tmp_path, command()) == 0
    for name in ("stages.md", "stages.csv"):
        assert (tmp_path / name).read_bytes() == (TABLE / name).read_bytes(), name


def test_an_answer_that_the_record_lacks_is_no_failure_of_the_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(monkeypatch, tmp_path, command()) == 2
    assert "run it once with mode=record" in capsys.readouterr().err
    assert not (tmp_path / "stages.md").exists()
    assert not AnswerCache(tmp_path / "answers" / "llm").path.exists()
