"""TF-IDF cosines over collections that are joined at query time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtune.data.text import terms
from ragtune.superprompt.reading.stopwords import content_terms


class TermIndex:
    """Term counts of texts. They are weighted in a search, so several indexes can share document frequencies."""

    def __init__(self, texts: Sequence[str]) -> None:
        from scipy.sparse import csr_matrix

        self.columns: dict[str, int] = {}
        rows, columns, values = [], [], []
        for row, text in enumerate(texts):
            for term, count in Counter(terms(text)).items():
                rows.append(row)
                columns.append(self.columns.setdefault(term, len(self.columns)))
                values.append(1.0 + np.log(count))
        shape = (len(texts), max(1, len(self.columns)))
        self.counts: Any = csr_matrix((values, (rows, columns)), shape=shape, dtype=np.float64)
        self.frequencies = np.bincount(self.counts.indices, minlength=shape[1])

    def frequency(self, term: str) -> int:
        """Return the number of texts with the term."""
        column = self.columns.get(term)
        return 0 if column is None else int(self.frequencies[column])

    def idf(self, frequency: Any) -> Any:
        """Return ``ln((1 + N) / (1 + df)) + 1``, scikit-learn's smooth idf, of one document frequency or an array."""
        return _idf(frequency, self.counts.shape[0])

    def rarity(self, term: str) -> float:
        """Return ``ln(1 + N / (1 + df))``, >= 0: the information of a term."""
        return float(np.log1p(self.counts.shape[0] / (1.0 + self.frequency(term))))


def tfidf_cosines(pieces: Sequence[str], indexes: Sequence[TermIndex]) -> NDArray[np.float64]:
    """Return cosines of all texts of all indexes, as one collection, with every piece.

    Weights are (1 + ln tf) * (ln((1 + N) / (1 + df)) + 1) with N and df of the union, as scikit-learn's TfidfVectorizer
    with sublinear_tf and smooth_idf. Stopwords of a piece do not count
    (:func:`ragtune.superprompt.reading.stopwords.content_terms`). Unknown terms count in a piece's norm, so a text is
    not similar only because little of the piece is known.

    Returns:
        Shape (texts, pieces), in [0, 1]; zeros for a text or piece without terms.
    """
    total = sum(index.counts.shape[0] for index in indexes)
    weighted = [_piece_weights(piece, indexes, total) for piece in pieces]
    return np.vstack([_cosines(index, weighted, indexes, total) for index in indexes])


def _idf(frequency: Any, total: int) -> Any:
    return np.log((1.0 + total) / (1.0 + frequency)) + 1.0


def _piece_weights(piece: str, indexes: Sequence[TermIndex], total: int) -> dict[str, float]:
    weights = {
        term: (1.0 + np.log(count)) * float(_idf(sum(index.frequency(term) for index in indexes), total))
        for term, count in Counter(content_terms(piece)).items()
    }
    norm = np.sqrt(sum(weight * weight for weight in weights.values()))
    return {term: weight / norm for term, weight in weights.items()}


def _cosines(
    index: TermIndex, weighted: Sequence[dict[str, float]], indexes: Sequence[TermIndex], total: int
) -> NDArray[np.float64]:
    frequencies = index.frequencies.astype(np.float64)
    for other in indexes:
        # The conversation is small, so its terms are looked up in the documents.
        small, large = sorted((other.columns, index.columns), key=len)
        if other is not index:
            for term in small:
                if term in large:
                    frequencies[index.columns[term]] += other.frequency(term)
    idf = _idf(frequencies, total)
    query = np.zeros((len(idf), len(weighted)))
    for column, weights in enumerate(weighted):
        for term, weight in weights.items():
            if term in index.columns:
                query[index.columns[term], column] = weight
    norms = np.sqrt(index.counts.multiply(index.counts) @ (idf * idf))
    norms[norms == 0.0] = 1.0
    cosines: NDArray[np.float64] = (index.counts @ (idf[:, None] * query)) / norms[:, None]
    return cosines
