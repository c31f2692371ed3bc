"""The fixed inputs of conformance and their golden answers: JSON, shipped with the package, pinned for each version."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from ragtune.canonical.conformance import SPEC

CORPUS, QUERIES, GOLDEN = "corpus.json", "queries.json", "golden.json"

Json = dict[str, Any]

Observations = Json
"""A target's answers by case, ``block/...``."""


def load_fixtures(spec: str = SPEC) -> Json:
    """The inputs of a version, one of :data:`ragtune.canonical.conformance.SPECS`.

    Returns:
        ``policies``: chunking policies by name. ``documents``: each with the name of its ``policy``. ``change``: a
        later state of one document. ``queries``, ``analyzer``, and ``groups``: further collections, each with ``name``,
        ``analyzer``, ``documents``, ``generated`` (number of :func:`generated_chunks`) and ``queries``. A query has
        ``name``, ``query``, ``plans`` (one ranked list each), and ``fuse``, ``rerank``, ``compress`` and ``package``
        (with content or without) for the further blocks that it passes.
    """
    corpus = {"analyzer": "english-1", "groups": [], **_read(spec, CORPUS)}
    return {**corpus, "queries": _read(spec, QUERIES)["cases"]}


def load_golden(spec: str = SPEC) -> Observations:
    """The golden answers of a version."""
    golden: Observations = _read(spec, GOLDEN)["cases"]
    return golden


def dump_golden(observations: Observations, spec: str = SPEC) -> str:
    """The text of the golden file: ASCII, one line for each case."""
    cases = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in observations.items())
    return f'{{"spec": "{spec}", "cases": {{\n{cases}\n}}}}\n'


def generated_chunks(count: int) -> list[Json]:
    """Chunks of 8 to 27 made-up words, frequent and rare ones, the same on every platform.

    Every 50th has the tag ``few``, every third ``many``. The metadata ``page`` is 0 to 6.
    """
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


def _read(spec: str, name: str) -> Any:
    file = files("ragtune.canonical.conformance") / f"v{spec}" / name
    return json.loads(file.read_text(encoding="utf-8"))
