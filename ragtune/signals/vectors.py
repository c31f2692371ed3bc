"""How near a document stands to the query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ragtune.core.arguments import check_vectors
from ragtune.core.arrays import FloatArray, dense
from ragtune.core.errors import InputError
from ragtune.core.interfaces import BaseSignal, TextVectors
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus

_DECIMALS = 6  # values are rounded to so many, so that the noise of float32 does not decide between equal documents


class VectorsSignal(BaseSignal):
    """Cosine of query and document vectors, in [-1, 1] (Karpukhin et al. 2020, of what another first stage has found).

    The documents' vectors are made once, with the index. What a request takes is one vector of its query: its time is
    the request's, as that of a dense first stage is, and no account is charged. Nothing is known of a document, or
    for a query, whose vector is zero. Vectors that count words are no witness beside a lexical first stage.
    """

    def __init__(self, corpus: Corpus | None, vectors: Callable[[Any], TextVectors]) -> None:
        self._vectors = check_vectors("signal.vectors.vectors", vectors)(corpus)
        self.is_witness = not getattr(self._vectors, "are_words", False)

    def prepare(self) -> None:
        self._vectors.of_query("a first text")

    def values(self, context: RAGtuneContext, documents: Sequence[ScoredDocument]) -> Mapping[str, float]:
        if not documents:
            return {}
        rows = self._vectors.of([PoolItem.from_document(document, i, {}) for i, document in enumerate(documents)])
        query = self._vectors.of_query(context.query)
        if rows.shape[1] != query.shape[1]:
            raise InputError(
                f"the documents' vectors have {rows.shape[1]} numbers and the query's has {query.shape[1]}: "
                "allowed are vectors of one embedder"
            )
        cosines = np.round(_column(rows @ query.T), _DECIMALS).tolist()
        known = _column(abs(rows).sum(axis=1)) > 0.0
        if not abs(query).sum():
            return {}
        return {document.id: cosines[i] for i, document in enumerate(documents) if known[i]}


def _column(values: Any) -> FloatArray:
    return dense(values).astype(np.float64).ravel()
