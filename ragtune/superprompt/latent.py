"""An order without a model, from the collection's own texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtune.core.request.context import CostMeter
from ragtune.core.types import ScoredDocument
from ragtune.data.text import terms
from ragtune.superprompt.memory.documents import TermIndex
from ragtune.superprompt.rendering import subject_words
from ragtune.superprompt.stages.reranker import BaseRerankStage, Reranked

_DECIMALS = 6
_SAMPLE = 10_000
_MAX_DIMENSIONS = 200
_FEEDBACK = 5

Vector = NDArray[np.float64]


class LatentRerankStage(BaseRerankStage):
    """Scores by the mean of two cosines, mapped to [0, 1] by (1 + mean) / 2.

    One cosine is of TF-IDF vectors. The other is in the collection's latent space (Deerwester et al. 1990) with
    log-entropy weights (Dumais 1991) and the five best texts as relevance feedback (Rocchio 1971). The latent space
    has ``2 sqrt(n)`` dimensions for n texts, at most 200, learned once from at most 10,000 texts.

    ``details["support"]`` has each candidate's mean without feedback, reduced by words of the prompt that the
    collection does not know or does not relate to its subjects. It is low where the collection is about something else.
    """

    label = "terms and latent semantic analysis of the documents, without a model"

    def __init__(self, index: TermIndex, request_words: Collection[str] = ()) -> None:
        self._index = index
        self._request_words = frozenset(request_words)

    def order(self, body: Mapping[str, str], candidates: Sequence[ScoredDocument], meter: CostMeter) -> Reranked:
        query = " ".join(word for word, _ in subject_words(body, self._request_words))
        counts = [Counter(terms(text)) for text in (query, *(candidate.content for candidate in candidates))]
        rows, known = self._rows(counts, self._index.idf(self._index.frequencies), self._index.idf(0))
        lexical = (rows[1:] @ rows[0].T).toarray().ravel()
        latent = np.asarray(self._rows(counts, self._entropy, 1.0)[0] @ self._axes.T)
        length, texts = float(np.linalg.norm(latent[0])), _normalized(latent[1:])
        wanted = _normalized(latent[0])
        related = texts @ wanted
        best = np.argsort(-np.round(lexical + related, _DECIMALS), kind="stable")[:_FEEDBACK]
        refined = _normalized(wanted + _normalized(texts[best].mean(axis=0)))
        means = np.round((lexical + texts @ refined) / 2.0, _DECIMALS)
        support = np.round(known[0] * (lexical + length * related) / 2.0, _DECIMALS).tolist()
        order = np.argsort(-means, kind="stable")
        scores = {candidates[place].id: (1.0 + float(means[place])) / 2.0 for place in order}
        return Reranked(list(scores), scores, {"support": dict(zip((c.id for c in candidates), support, strict=True))})

    def _rows(self, counts: Sequence[Counter[str]], weights: Vector, unknown: float) -> tuple[Any, list[float]]:
        """Unit rows over the collection's terms, and the share of each text's length that these terms have."""
        from scipy.sparse import csr_matrix

        rows, columns, values, known = [], [], [], []
        for row, found in enumerate(counts):
            places = {term: self._index.columns[term] for term in found if term in self._index.columns}
            mine = {place: (1.0 + np.log(found[term])) * weights[place] for term, place in places.items()}
            length = sqrt(sum(weight * weight for weight in mine.values()))
            other = sum(((1.0 + np.log(n)) * unknown) ** 2 for term, n in found.items() if term not in places)
            known.append(length / sqrt(length**2 + other) if length else 0.0)
            if length:
                rows += [row] * len(mine)
                columns += list(mine)
                values += [weight / length for weight in mine.values()]
        return csr_matrix((values, (rows, columns)), shape=(len(counts), len(weights))), known

    @cached_property
    def _entropy(self) -> Vector:
        """Weights of the terms: 1 for a term of a single text, 0 for a term that all texts share equally."""
        counts = self._index.counts.tocsc()
        share = counts.data / np.repeat(np.asarray(counts.sum(axis=0)).ravel(), np.diff(counts.indptr))
        columns = np.repeat(np.arange(counts.shape[1]), np.diff(counts.indptr))
        spread = np.bincount(columns, share * np.log(share), counts.shape[1])
        weights: Vector = 1.0 + spread / np.log(max(2, counts.shape[0]))
        return weights

    @cached_property
    def _axes(self) -> Vector:
        """Axes of the latent space, shape (dimensions, terms); none for a tiny collection."""
        from scipy.sparse import diags
        from scipy.sparse.linalg import svds

        counts = self._index.counts
        matrix = counts[:: 1 + (counts.shape[0] - 1) // _SAMPLE] @ diags(self._entropy)
        lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
        matrix = diags(1.0 / np.where(lengths > 0.0, lengths, 1.0)) @ matrix
        dimensions = min(_MAX_DIMENSIONS, int(2.0 * sqrt(matrix.shape[0])), min(matrix.shape) - 1)
        if dimensions < 1 or not matrix.nnz:
            return np.zeros((0, counts.shape[1]))
        # A fixed start, because ARPACK's own is random.
        axes: Vector = svds(matrix, k=dimensions, v0=np.ones(min(matrix.shape)))[2]
        return axes


def _normalized(vectors: Vector) -> Vector:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: Vector = vectors / np.where(lengths > 0.0, lengths, 1.0)
    return unit
