"""Every signal keeps the contract."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ragtune.core.interfaces import BaseSignal
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus
from ragtune.embedders.candidates import CandidateVectors
from ragtune.embedders.dense_vectors import DenseVectors
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.signals.lexical import LexicalSignal
from ragtune.signals.metadata import MetadataSignal
from ragtune.signals.table import TableSignal
from ragtune.signals.vectors import VectorsSignal
from ragtune.testing import SignalContract

Factory = Callable[[Corpus, pytest.FixtureRequest], BaseSignal]


def _table(header: str, line: str, **options: str) -> Factory:
    def make(corpus: Corpus, request: pytest.FixtureRequest) -> BaseSignal:
        file = request.getfixturevalue("tmp_path") / "numbers.csv"
        lines = [line.format(doc_id, i) for i, doc_id in enumerate(corpus.doc_ids) if i % 3]
        file.write_text("\n".join([header, *lines]), encoding="utf-8")
        return TableSignal(file, **options)

    return make


SIGNALS: dict[str, Factory] = {
    "lexical": lambda corpus, request: LexicalSignal(),
    "vectors_tfidf": lambda corpus, request: VectorsSignal(corpus, TfidfEmbedder),
    "vectors_dense": lambda corpus, request: VectorsSignal(corpus, lambda c: DenseVectors(c, HashingEmbedder())),
    "vectors_candidates": lambda corpus, request: VectorsSignal(corpus, CandidateVectors),
    "metadata": lambda corpus, request: MetadataSignal("year", higher_is_better=False),
    "table_by_pair": _table("query_id,doc_id,score", "q1,{},{}.5"),
    "table_by_document": _table("doc_id,value", "{},{}", by="document"),
}


class TestSignals(SignalContract):
    @pytest.fixture(autouse=True, params=SIGNALS)
    def chosen(self, request: pytest.FixtureRequest) -> None:
        self.request = request

    @property
    def documents(self) -> list[ScoredDocument]:
        dated = {"metadata": {"year": 1990}}, {"metadata": {"year": 2020.5}}, {}, {"metadata": {"year": None}}
        return [document.model_copy(update=dated[i % 4]) for i, document in enumerate(super().documents)]

    def make(self) -> BaseSignal:
        return SIGNALS[self.request.param](self.corpus, self.request)
