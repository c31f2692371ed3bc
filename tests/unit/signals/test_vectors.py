"""How near a document stands to the query."""

from __future__ import annotations

import pytest

from ragtune.core.errors import InputError
from ragtune.core.types import ScoredDocument
from ragtune.embedders.candidates import CandidateVectors
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.retrievers.dense import DenseRetriever
from ragtune.signals.vectors import VectorsSignal
from ragtune.testing import make_context, small_corpus


def test_values_are_those_of_a_dense_first_stage() -> None:
    corpus, context = small_corpus(), make_context("honey in bread")
    found = DenseRetriever(corpus, TfidfEmbedder(corpus)).retrieve(context, 100)
    told = VectorsSignal(corpus, TfidfEmbedder).values(context, found)
    without_terms = "blank-1"
    assert told == pytest.approx({d.id: d.score for d in found if d.id != without_terms}, abs=2e-6)


def test_vectors_of_two_embedders_are_refused_by_their_lengths() -> None:
    signal = VectorsSignal(None, lambda _: CandidateVectors(embedder=HashingEmbedder(dims=8)))
    with pytest.raises(InputError, match="vectors have 2 numbers and the query's has 8"):
        signal.values(make_context("tea"), [ScoredDocument(id="a", metadata={"vector": [1.0, 2.0]})])
