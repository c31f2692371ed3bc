"""The library as a target of the conformance suite (rule D14), and pinning of its answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from ragtune.canonical import conformance
from ragtune.canonical.conformance import GOLDEN, SPEC, dump_golden, load_fixtures
from ragtune.canonical.conformance.observing import observe
from ragtune.canonical.conformance.targets import EMBEDDER, RERANKER, Target
from ragtune.canonical.service import RagService
from ragtune.canonical.store.base import BaseDatabase
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.core.interfaces import BaseEmbedder
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.rerankers.models.bi_encoder import BiEncoderReranker
from ragtune.services.operations import OPERATIONS


class LibraryTarget(Target):
    """The library's own functions over a database, called as the service calls them; no cache may answer for them."""

    def __init__(self, database: BaseDatabase | None = None, embedder: BaseEmbedder | None = None) -> None:
        self.name = "library"
        self.reranker = RERANKER
        reranker = BiEncoderReranker(HashingEmbedder(), cache_dir=None)
        embedders = {EMBEDDER: embedder or HashingEmbedder()}
        self.service = RagService(database or MemoryDatabase(), embedders, {RERANKER: reranker}, cache_dir=None)
        self._operations = {operation.name: operation for operation in OPERATIONS}

    def call(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        chosen = self._operations[operation]
        request = chosen.decode(json.dumps(arguments).encode())
        found: dict[str, Any] = json.loads(chosen.answer(self.service, request))
        return found


def pin_canonical() -> None:
    """Make the answers of the store in memory the golden ones."""
    folder = Path(str(files(conformance))) / f"v{SPEC}"
    (folder / GOLDEN).write_text(dump_golden(observe(LibraryTarget(), load_fixtures())), encoding="utf-8")
