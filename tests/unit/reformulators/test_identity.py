from __future__ import annotations

from collections.abc import Callable

from ragtune.core.request.context import RAGtuneContext
from ragtune.data.corpus import Corpus
from ragtune.reformulators.identity import IdentityReformulator


def test_rewrites_nothing_and_is_never_charged(corpus: Corpus, make_context: Callable[..., RAGtuneContext]) -> None:
    assert IdentityReformulator().generate(make_context("heart"), [corpus.scored("heart-1", 1.0)]) == []
    assert not IdentityReformulator().is_active
