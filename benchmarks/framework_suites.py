"""Runs test suites of frameworks, unchanged, with RAGtune's adapters in the place of their models.

    python -m pytest -p benchmarks.framework_suites -c /dev/null -o anyio_mode=auto -n 0 TESTS...

docs/reference/framework-suites.md lists the files, and what they found.
"""

from __future__ import annotations

import os
from typing import Any

import pytest


def overlap(query: str, texts: list[str]) -> list[float]:
    """A model: the share of the query's words that a text has."""
    words = set(query.lower().split())
    return [len(words & set(text.lower().split())) / max(1, len(words)) for text in texts]


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Any:
    """The CrossEncoder of sentence-transformers' tests; ``CROSS_ENCODER`` is the folder of a model."""
    if fixturedef.argname != "_reranker_bert_tiny_model":
        return None
    from sentence_transformers import CrossEncoder

    from ragtune.frameworks.sentence_transformers import BudgetedCrossEncoder

    made = BudgetedCrossEncoder(CrossEncoder(os.environ["CROSS_ENCODER"], max_length=192), docs=1000)
    fixturedef.cached_result = (made, fixturedef.cache_key(request), None)
    return made


def pytest_configure() -> None:
    """The cross-encoder of MTEB's tests."""
    try:
        import mteb
    except ImportError:
        return
    from ragtune.frameworks.mteb import BudgetedSearch

    theirs = mteb.get_model

    def get_model(name: str, *arguments: Any, **further: Any) -> Any:
        is_reranker = name == "mteb/baseline-random-cross-encoder"
        return BudgetedSearch(overlap, docs=10) if is_reranker else theirs(name, *arguments, **further)

    mteb.get_model = get_model
