"""The pages under docs/ name tests that exist, files that exist, and options that compose."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from experiments.config.compose import compose

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
NAMES = {
    name
    for file in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    named = set(re.findall(r"::(test_\w+)", page.read_text(encoding="utf-8")))
    assert sorted(named - NAMES) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_file_that_a_page_links_exists(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_options_of_the_language_model_page_compose() -> None:
    text = (ROOT / "docs" / "llm.md").read_text(encoding="utf-8")
    commands = re.findall(r"^python run\.py (?!\.\.\.)(.+)$", text, flags=re.MULTILINE)
    assert len(commands) >= 2
    for command in commands:
        options = shlex.split(command)
        assert compose(options)[options[0].split("=")[0]]["llm"]["model"] == "MODEL"
