"""ragd: the canonical blocks of retrieval-augmented generation.

normalize -> chunk -> embed -> index, then retrieve -> fuse -> rerank -> compress -> package. What works on a store or
on the harness's components is loaded on first use, so that cutting a text costs no more than this package.
"""

from importlib import import_module
from typing import Any

from ragtune.canonical.chunking import chunk
from ragtune.canonical.compression import compress
from ragtune.canonical.embedding import embed
from ragtune.canonical.fusion import fuse
from ragtune.canonical.normalization import NormalizedText, normalize
from ragtune.canonical.packaging import package
from ragtune.canonical.policies import ChunkPolicy, CompressPolicy, RetrievalPlan
from ragtune.canonical.types import Candidate, Chunk, Collection, Embedding, Filters, Segment, SourceDocument

_ON_FIRST_USE = ("index", "rerank", "retrieve")

__all__ = [
    "Candidate",
    "Chunk",
    "ChunkPolicy",
    "Collection",
    "CompressPolicy",
    "Embedding",
    "Filters",
    "NormalizedText",
    "RetrievalPlan",
    "Segment",
    "SourceDocument",
    "chunk",
    "compress",
    "embed",
    "fuse",
    "index",
    "normalize",
    "package",
    "rerank",
    "retrieve",
]


def __getattr__(name: str) -> Any:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.retrieval"), name)
