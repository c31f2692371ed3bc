"""BM25 by rank-bm25: the reference that the fast one is checked against."""

from __future__ import annotations

from collections.abc import Sequence

from ragtune.core.arguments import check_number
from ragtune.core.errors import MissingExtraError
from ragtune.core.interfaces import BaseRetriever
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus, best_positions
from ragtune.data.text import terms


class RankBM25Retriever(BaseRetriever):
    """``BM25Okapi`` of rank-bm25 (Trotman et al. 2014) on the same terms as :class:`BM25Retriever`.

    Its scores are those of ``bm25`` with ``method=robertson`` times (k1 + 1) where no query term is in more than half
    of the documents; commoner terms get ``epsilon`` times the mean idf here and nothing there. It scans the
    collection for every query term and keeps no index on disk: for small collections and checks.
    """

    def __init__(self, corpus: Corpus, k1: float = 1.5, b: float = 0.75, epsilon: float = 0.25) -> None:
        try:
            from rank_bm25 import BM25Okapi
        except ImportError:
            raise MissingExtraError("retriever=rank_bm25", "experiments") from None

        self.k1 = check_number("rank_bm25 k1", k1, low=0.0)
        self.b = check_number("rank_bm25 b", b, 0.0, 1.0)
        self.epsilon = check_number("rank_bm25 epsilon", epsilon, low=0.0)
        self._corpus = corpus
        self._tie_ranks = corpus.id_ranks
        tokens = [terms(content) for content in corpus.contents]
        self._vocabulary = {term for document in tokens for term in document}
        # BM25Okapi divides by the mean length and by the number of terms: without any term there is nothing to index.
        self._index = BM25Okapi(tokens, k1=self.k1, b=self.b, epsilon=self.epsilon) if self._vocabulary else None

    def retrieve(self, context: RAGtuneContext, top_k: int) -> Sequence[ScoredDocument]:
        known = [term for term in terms(context.query) if term in self._vocabulary]
        if self._index is None or not known:
            return []
        scores = self._index.get_scores(known)
        best = best_positions(scores, self._tie_ranks, top_k, above=0.0)
        return self._corpus.hits_at(best.tolist(), scores[best].tolist())
