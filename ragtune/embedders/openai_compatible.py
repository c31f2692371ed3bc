"""Embeddings from a server."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arguments import check_count
from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseEmbedder
from ragtune.llm.client import LLMClient


class OpenAICompatibleEmbedder(BaseEmbedder):
    """Vectors of an OpenAI-compatible server, L2-normalised here; blank texts are not sent, their rows are zero."""

    def __init__(self, llm: LLMClient, dims: int | None = None) -> None:
        self._llm = llm
        self._dims = None if dims is None else check_count("embedder dims", dims, low=1)

    def prepare(self) -> None:
        self._llm.prepare()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        sent = [position for position, text in enumerate(texts) if text.strip()]
        vectors = self._fetch([texts[position] for position in sent]) if sent else None
        if self._dims is None:
            self._fetch(["dimension"])
        rows = np.zeros((len(texts), self._dims or 0), dtype=np.float32)
        if vectors is not None:
            rows[sent] = vectors
        return rows

    @property
    def name(self) -> str:
        return f"{self._llm.model}@{self._llm.host}"

    def _fetch(self, texts: list[str]) -> NDArray[np.float32]:
        vectors = self._llm.embed(texts).vectors
        if self._dims is None:
            self._dims = vectors.shape[1]
        if vectors.shape[1] != self._dims:
            raise ConfigError(f"embedder dims={self._dims!r}: {self.name} gives vectors of length {vectors.shape[1]}")
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.where(norms > 0, norms, 1.0), dtype=np.float32)
