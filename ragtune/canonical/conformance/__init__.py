"""Conformance with the ragd specification (rule D14): fixed inputs and their golden answers.

The golden files of a specification version never change; a changed answer is a new version of the specification.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

SPEC = "1.1.0"
"""Version of the specification that the code is held to (semantic versioning)."""

CORPUS, QUERIES, GOLDEN = "corpus.json", "queries.json", "golden.json"

Json = dict[str, Any]

Observations = Json
"""A target's answers by case, ``block/...``."""


def load_fixtures() -> Json:
    """``policies``, ``documents``, ``change`` (of one document), ``queries``, ``analyzer``, and ``groups``.

    A group is a further collection with ``name``, ``analyzer``, ``documents``, ``generated`` (number of
    :func:`generated_chunks`) and ``queries``. A query has ``plans`` (one ranked list each), and ``fuse``, ``rerank``,
    ``compress`` and ``package`` (with content or without) for the further blocks that it passes.
    """
    return {**_read(CORPUS), "queries": _read(QUERIES)["cases"]}


def load_golden() -> Observations:
    """The golden answers."""
    golden: Observations = _read(GOLDEN)["cases"]
    return golden


def dump_golden(observations: Observations) -> str:
    """The text of the golden file: ASCII, one line for each case."""
    cases = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in observations.items())
    return f'{{"spec": "{SPEC}", "cases": {{\n{cases}\n}}}}\n'


def generated_chunks(count: int) -> list[Json]:
    """Chunks of 8 to 27 made-up words, frequent and rare ones, the same on every platform."""
    state, made = 1, []
    for place in range(count):
        words = []
        for _ in range(8 + place % 20):
            state = state * 6364136223846793005 + 1442695040888963407 & 2**64 - 1  # Knuth's MMIX
            rank = (state >> 33) % 3000
            words.append(f"word{rank * rank // 3000}")
        content = " ".join(words)
        tags = [tag for tag, each in (("few", 50), ("many", 3)) if place % each == 0]
        about = {"tags": tags, "metadata": {"page": place % 7}, "start": 0, "end": len(content)}
        made.append({"doc_id": f"g{place:05d}", "chunk_index": 0, "content": content, **about})
    return made


def _read(name: str) -> Any:
    return json.loads((files(__name__) / f"v{SPEC}" / name).read_text(encoding="utf-8"))
