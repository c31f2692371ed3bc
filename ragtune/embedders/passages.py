"""Long documents in passages: how they are cut, and which passage is read first."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ragtune.core.arguments import check_count, check_vectors
from ragtune.core.arrays import IntArray, dense
from ragtune.core.component import Component
from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import TextVectors
from ragtune.core.passages import PASSAGE, PassagePool
from ragtune.core.pool.items import PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.tokens import count_tokens, token_spans
from ragtune.embedders.candidates import VECTOR, CandidateVectors

_WORD = 8  # tokens; a passage begins with a whole word, unless that is longer
_LEAD = 2.0  # weight of a document's beginning, which has title and subject (1.5 to 3 did best on nfcorpus and MedQuAD)
_DECIMALS = 6  # of likeness, so that the noise of floats decides nothing


class Passages(Component):
    """Splits documents longer than ``tokens`` into passages, which are read instead of the whole text.

    A passage has ``tokens`` tokens (:func:`~ragtune.core.tokens.count_tokens`), or a few less so that it begins with a
    whole word. The last one overlaps the one before it. Of each document, the passage whose words are most like the
    query's is read first; the likeness of its beginning, which has title and subject, counts twice.

    Args:
        tokens: tokens of a passage, >= 1.
        most: passages of a document that may be read, those most like the query; None for all.
        average: a document's score is the mean of so many of its best passages, >= 1; 1 is the best passage's.
        vectors: what makes the vectors of passages and query; words by default.

    Raises:
        ConfigError: if a value is out of range, or ``vectors`` need a collection.

    Examples:
        >>> from ragtune import BudgetedReranker
        >>> from ragtune.embedders.passages import Passages
        >>> def is_green(query, texts):
        ...     return [float("green" in text) for text in texts]
        >>> reranker = BudgetedReranker(is_green, docs=1, passages=Passages(tokens=4, most=1))
        >>> first = reranker.rank("green tea", ["Bread is baked. Salt is mined. Tea is green."])[0]
        >>> first.score, first.passage, first.document[slice(*first.passage)]
        (1.0, (31, 44), 'Tea is green.')
    """

    def __init__(
        self,
        tokens: int = 128,
        most: int | None = None,
        average: int = 1,
        vectors: Callable[[Any], TextVectors] = CandidateVectors,
    ) -> None:
        self.tokens = check_count("passages.tokens", tokens, low=1)
        self.most = None if most is None else check_count("passages.most", most, low=1)
        self.average = check_count("passages.average", average, low=1)
        try:
            self._vectors = check_vectors("passages.vectors", vectors)(None)
        except AttributeError:  # passages are in no collection
            raise ConfigError("passages.vectors: allowed are those of the texts, CandidateVectors") from None

    def split(self, pool: CandidatePool, context: RAGtuneContext) -> CandidatePool:
        """The pool's passages, or the pool itself where no document is longer than a passage."""
        places = [spans(item.content, self.tokens) for item in pool.entries]
        if all(len(each) == 1 for each in places):
            return pool
        mark = "#"
        while any(mark in doc_id for doc_id in pool.doc_ids):
            mark += "#"
        passages = [
            _passage(item, mark, number, place) if len(own) > 1 else item
            for item, own in zip(pool.entries, places, strict=True)
            for number, place in enumerate(own)
        ]
        parents = np.repeat(np.arange(len(pool)), list(map(len, places)))
        order = self._order(passages, parents, context.query)
        least = float(pool.retrieval_scores.min())
        ranked = [
            # Where the first stage's score alone decides, every document's first passage comes before second ones.
            replace(passages[i], initial_rank=rank, **({} if rank < len(pool) else {"retrieval_score": least}))
            for rank, i in enumerate(order.tolist())
        ]
        context.trace.add("controller", "split", documents=len(pool), passages=len(ranked))
        return PassagePool(pool.roster, ranked, parents[order], self.average)

    def count(self, text: str) -> int:
        """Number of passages of a text that may be read."""
        return min(len(spans(text, self.tokens)), self.most or sys.maxsize)

    def prepare(self) -> None:
        """Make the vectors ready, outside any request's clock."""
        self._vectors.of_query("ready")

    def _order(self, passages: Sequence[PoolItem], parents: IntArray, query: str) -> IntArray:
        """The passages that may be read: first each document's most promising one, then each one's second, ..."""
        likeness = self._vectors.of(passages) @ self._vectors.of_query(query).T
        likeness = np.round(dense(likeness).astype(float).ravel(), _DECIMALS)
        likeness[np.diff(parents, prepend=-1) > 0] *= _LEAD
        order = np.lexsort((-likeness, parents))
        turns = np.arange(len(parents)) - np.searchsorted(parents, parents)  # within a document
        turns, order = turns[kept := turns < (self.most or len(order))], order[kept]
        return order[np.argsort(turns, kind="stable")]


def spans(text: str, tokens: int) -> list[tuple[int, int]]:
    """Start and end of each passage of a text, in characters; one of a text that is not longer than ``tokens``."""
    found = list(token_spans(text)) if len(text) > tokens else []
    if len(found) <= tokens:
        return [(0, len(text))]
    reach = range(min(_WORD, tokens))
    begins = [0]
    while begins[-1] + tokens < len(found):
        following, final = begins[-1] + tokens, len(found) - tokens
        following -= next((back for back in reach if _is_word(found, following - back)), 0)
        final += next((ahead for ahead in reach if _is_word(found, final + ahead)), 0)
        begins.append(min(following, final))
    places = [(found[first][0], found[min(first + tokens, len(found)) - 1][1]) for first in begins]
    return [(0, places[0][1]), *places[1:-1], (places[-1][0], len(text))]


def _is_word(found: Sequence[tuple[int, int]], token: int) -> bool:
    """Whether a token does not continue the word of the one before."""
    return found[token][0] > found[token - 1][1]


def _passage(item: PoolItem, mark: str, number: int, place: tuple[int, int]) -> PoolItem:
    start, end = place
    content = item.content[start:end]
    metadata = {name: value for name, value in item.metadata.items() if name != VECTOR}
    metadata[PASSAGE] = {"start": start, "end": end}
    return replace(
        item,
        doc_id=f"{item.doc_id}{mark}{number}",
        content=content,
        metadata=metadata,
        token_count=count_tokens(content),
    )
