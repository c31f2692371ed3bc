"""TF-IDF cosines of texts with the pieces of a query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtune.data.text import terms
from ragtune.superprompt.reading.stopwords import content_terms


class TermIndex:
    """Term counts of texts, followed by those of a further index. They are weighted in a search."""

    def __init__(self, texts: Sequence[str], further: TermIndex | None = None) -> None:
        from scipy.sparse import csr_matrix, vstack

        self.columns: dict[str, int] = {} if further is None else dict(further.columns)
        rows, columns, values = [], [], []
        for row, text in enumerate(texts):
            for term, count in Counter(terms(text)).items():
                rows.append(row)
                columns.append(self.columns.setdefault(term, len(self.columns)))
                values.append(1.0 + np.log(count))
        width = max(1, len(self.columns))
        self.counts: Any = csr_matrix((values, (rows, columns)), shape=(len(texts), width), dtype=np.float64)
        if further is not None:
            known = further.counts
            wider = csr_matrix((known.data, known.indices, known.indptr), shape=(known.shape[0], width))
            self.counts = vstack([self.counts, wider], format="csr")
        self.frequencies = np.bincount(self.counts.indices, minlength=width)

    def frequency(self, term: str) -> int:
        """Return the number of texts with the term."""
        column = self.columns.get(term)
        return 0 if column is None else int(self.frequencies[column])

    def idf(self, frequency: Any) -> Any:
        """Return ``ln((1 + N) / (1 + df)) + 1``, scikit-learn's smooth idf, of one document frequency or an array."""
        return np.log((1.0 + self.counts.shape[0]) / (1.0 + frequency)) + 1.0

    def rarity(self, term: str) -> float:
        """Return ``ln(1 + N / (1 + df))``, >= 0: the information of a term."""
        return float(np.log1p(self.counts.shape[0] / (1.0 + self.frequency(term))))

    def cosines(self, pieces: Sequence[str]) -> NDArray[np.float64]:
        """Return cosines of all texts with every piece.

        Weights are (1 + ln tf) * (ln((1 + N) / (1 + df)) + 1), as scikit-learn's TfidfVectorizer with sublinear_tf and
        smooth_idf. Stopwords of a piece do not count (:func:`ragtune.superprompt.reading.stopwords.content_terms`).
        Unknown terms count in a piece's norm, so a text is not similar only because little of the piece is known.

        Returns:
            Shape (texts, pieces), in [0, 1]; zeros for a text or piece without terms.
        """
        idf = self.idf(self.frequencies)
        query = np.zeros((len(idf), len(pieces)))
        for column, piece in enumerate(pieces):
            counts = Counter(content_terms(piece)).items()
            weights = {term: (1.0 + np.log(count)) * float(self.idf(self.frequency(term))) for term, count in counts}
            norm = np.sqrt(sum(weight * weight for weight in weights.values()))
            for term, weight in weights.items():
                if term in self.columns:
                    query[self.columns[term], column] = weight / norm
        norms = np.sqrt(self.counts.multiply(self.counts) @ (idf * idf))
        norms[norms == 0.0] = 1.0
        cosines: NDArray[np.float64] = (self.counts @ (idf[:, None] * query)) / norms[:, None]
        return cosines
