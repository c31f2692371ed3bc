"""What the specification says by name or number (rules D6 to D8, D14 and D16), and that every line of it has a test."""

import ast
import hashlib
import inspect
import re
from functools import cache
from importlib.resources import files
from pathlib import Path

import pytest

from ragtune import canonical
from ragtune.canonical import Candidate, Chunk, RetrievalPlan, conformance
from ragtune.canonical.conformance import CORPUS, GOLDEN, QUERIES, SPEC

ROOT = Path(__file__).parents[3]
SHARED = ROOT.parent / "shared" / "specs" / "ragd-canonical.md"
DOCS = ROOT / "docs" / "ragd.md"


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("chunk", {"text_or_segments": None, "policy": None}),
        ("index", {"chunks": None, "store": None}),
        ("retrieve", {"query": None, "plan": None, "store": None}),
        ("fuse", {"candidate_sets": None, "method": "rrf", "params": None}),
        ("rerank", {"query": None, "candidates": None, "model": None}),
        ("compress", {"query": None, "candidates": None, "policy": None}),
    ],
)
def test_functions_have_the_names_and_parameters_of_the_specification(name: str, parameters: dict[str, object]) -> None:
    found = inspect.signature(getattr(canonical, name)).parameters
    positional = [p for p in found.values() if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    assert [p.name for p in positional] == list(parameters)
    for parameter in positional:
        if parameters[parameter.name] is not None:
            assert parameter.default == parameters[parameter.name]


def test_types_have_the_fields_of_the_specification() -> None:
    assert {"doc_id", "chunk_index", "content", "tags", "metadata"} <= set(Chunk.model_fields)
    assert {"doc_id", "chunk_index", "content", "score", "tags", "metadata"} <= set(Candidate.model_fields)


def test_a_plan_has_the_defaults_of_the_specification() -> None:
    plan = RetrievalPlan()
    assert (plan.candidate_pool, plan.rrf_k, plan.k) == (50, 60.0, 12)


PINNED = {
    CORPUS: "e32fe216296b6fdb20006e5de828e4a5007997836b0e4f0f68c4d89a35e83af6",
    QUERIES: "9ad907b762e278d63fe8862052d8f026aca3d4c6387ae6a75eec94ea290303b2",
    GOLDEN: "448e537b9f6bacb22494efdeeeb3d9e92bf55f3bf37724ad2ebb23e4a1703a3f",
}
"""A published version's files never change: what would change them is a new version."""


def test_the_golden_vectors_of_a_version_never_change() -> None:
    assert SPEC == "1.1.0"
    for name, digest in PINNED.items():
        data = (files(conformance) / f"v{SPEC}" / name).read_bytes()
        assert hashlib.sha256(data).hexdigest() == digest, name


NODE = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@cache
def names_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def rows() -> list[list[str]]:
    """The table's rows: section, rule, tests."""
    lines = DOCS.read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if re.match(r"\| \d", line)]


def test_every_test_that_the_table_names_exists() -> None:
    named = NODE.findall(DOCS.read_text(encoding="utf-8"))
    assert len(named) > 50
    missing = [f"{file}::{name}" for file, name in named if not (ROOT / file).is_file() or name not in names_in(file)]
    assert missing == []


def test_every_rule_of_the_table_names_a_test() -> None:
    assert len(rows()) > 50
    assert [row for row in rows() if len(row) != 3 or not NODE.search(row[2])] == []


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_file(), reason="the specification is not beside this checkout (../shared)")
def test_every_line_of_sections_1_to_6_is_a_row_of_the_table() -> None:
    given = [(row[0], row[1].strip("`")) for row in rows()]
    assert [line for line in lines_of_the_specification() if line not in given] == []


def lines_of_the_specification() -> list[tuple[str, str]]:
    """Section and text of every rule: list items and function signatures."""
    text = SHARED.read_text(encoding="utf-8")
    body = text[text.index("## 1. ") : text.index("## 7. ")]
    section, found = "", []
    for line in body.splitlines():
        if heading := re.match(r"#{2,3} (\d(?:\.\d)?)\.? ", line):
            section = heading[1]
        elif block := re.match(r"(\d)\) ", line):
            section = f"{section[:3]}.{block[1]}"
        elif rule := re.match(r"- (.+)|def (.+):", line):
            found.append((section, rule[1] or rule[2]))
    return found
