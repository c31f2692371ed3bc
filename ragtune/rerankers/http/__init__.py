"""Rerankers that ask a rerank server."""

import warnings
from typing import Any


def __getattr__(name: str) -> Any:
    """Return what this path held when it was a module; goes with the next release."""
    if name != "HttpReranker":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ragtune.rerankers.http.reranker import HttpReranker

    warnings.warn("HttpReranker has moved to ragtune.rerankers.http.reranker", DeprecationWarning, stacklevel=2)
    return HttpReranker
