"""The README says what is true: its code runs, its options exist, its files are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments.config.compose import spelled_out

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GROUPS = ("estimator", "scheduler", "expander", "budget", "executor", "retriever", "dataset")


@pytest.mark.parametrize("group", GROUPS)
def test_every_option_that_is_named_exists(group: str) -> None:
    named = {name for names in re.findall(rf"\b{group}=([\w|,]+)", README) for name in re.split(r"[|,]", names)}
    offered = {file.stem for file in (ROOT / "conf" / group).glob("*.yaml")}
    amounts = {name for name in named if spelled_out([f"{group}={name}"]) != [f"{group}={name}"]}
    assert named - {"glob", "mine"} - amounts <= offered


def test_every_file_that_is_linked_exists() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"make (\w+)", README))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, flags=re.MULTILINE)] == []
