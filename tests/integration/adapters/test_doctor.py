"""ragtune doctor: what is missing, and how to get it."""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from ragtune.adapters.cli import main
from ragtune.adapters.commands import doctor

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_every_extra_is_told_with_what_it_is_for() -> None:
    assert set(doctor._FOR) == set(PROJECT["optional-dependencies"]) - {"dev"}


def test_what_is_missing_comes_with_the_command_that_gets_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def version(name: str) -> str:
        if name in ("torch", "psycopg"):
            raise PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(doctor, "version", version)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a-secret")
    assert main(["doctor"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert lines["models"].endswith("torch missing: pip install 'ragtune[models]'")
    assert lines["services"].endswith("psycopg missing: pip install 'ragtune[services]'")  # by the extra in it
    assert lines["llm"].endswith("installed")
    assert lines["OPENAI_API_KEY"].split() == ["OPENAI_API_KEY", "set"]
