"""ragtune doctor: what is missing, and how to get it."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from ragtune.cli.commands import doctor
from ragtune.cli.main import main
from ragtune.rerankers.http.dialects import DIALECTS

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_every_extra_is_told_with_what_it_is_for() -> None:
    assert set(doctor._FOR) == set(PROJECT["optional-dependencies"]) - {"dev"}


def test_every_variable_that_is_read_is_told() -> None:
    read = {
        name
        for folder in ("ragtune", "experiments")
        for file in (ROOT / folder).rglob("*.py")
        for name in re.findall(r'\b(?:environ(?:\.get\(|\[)|[A-Z_]+(?:_VARIABLE|_KEY) = )"([A-Z_]+)"', file.read_text())
    }
    ours = {
        "HYDRA_FULL_ERROR",
        "RAGTUNE_PAGE_CONFIG",
        "RAGTUNE_PAGE_CORPUS",
        "LOCALAPPDATA",
        "PYTHONPATH",
    }  # set by programs, not by users
    assert read - ours <= set(doctor.VARIABLES)
    assert {dialect.key_env for dialect in DIALECTS.values()} <= set(doctor.VARIABLES)


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
    assert "sk-a-secret" not in str(lines)
    assert lines["OPENAI_API_KEY"].split()[:2] == ["OPENAI_API_KEY", "set"]
