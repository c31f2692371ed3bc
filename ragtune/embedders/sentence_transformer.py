"""Neural sentence embeddings."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arguments import check_count
from ragtune.core.component import declare_files
from ragtune.core.interfaces import BaseEmbedder
from ragtune.data.models import load_model, model_identity

_BAR_FROM = 512  # texts; fewer are embedded before a progress bar would be of use


@declare_files(reads=["model"])
class SentenceTransformerEmbedder(BaseEmbedder):
    """A bi-encoder of sentence-transformers (Reimers and Gurevych 2019); the model is loaded on first use."""

    def __init__(
        self,
        model: str,
        batch_size: int = 32,
        max_length: int | None = None,
        device: str | None = None,
        revision: str | None = None,
    ) -> None:
        self.model = model
        self.batch_size = check_count("embedder batch_size", batch_size, low=1)
        self.max_length = None if max_length is None else check_count("embedder max_length", max_length, low=1)
        self.device = device
        self.revision = revision
        self._loaded: Any = None

    def prepare(self) -> None:
        """Load the model and run it once, since its first pass is slower than all others."""
        if self._loaded is None:
            self.embed(["a first text"])

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = self._ready().encode(
            list(texts),
            batch_size=self.batch_size,
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=len(texts) >= _BAR_FROM and sys.stderr.isatty(),
        )
        return np.asarray(vectors, dtype=np.float32).reshape(len(texts), int(self._ready().get_embedding_dimension()))

    @property
    def name(self) -> str:
        identity = model_identity(self.model, self.revision)
        if identity is None:
            self._ready()
            identity = model_identity(self.model, self.revision) or f"{self.model}@{self.revision or 'main'}"
        words = f"{'/'.join(Path(self.model).parts[-2:])} " if identity.startswith("sha256:") else ""
        return f"{words}{identity} max_length={self.max_length}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None}

    def _ready(self) -> Any:
        if self._loaded is None:
            self._loaded = load_model(self.model, self.revision, self._load)
        return self._loaded

    def _load(self, model: str, local_files_only: bool) -> Any:
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        if not sys.stderr.isatty():
            # The bar of loading weights; stderr is for notes, one line each.
            logging.disable_progress_bar()
        loaded = SentenceTransformer(
            model, device=self.device, revision=self.revision, local_files_only=local_files_only
        )
        if self.max_length is not None:
            loaded.max_seq_length = self.max_length
        return loaded
