"""How a document uses the words of the query."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from ragtune.core.interfaces import BaseSignal
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.text import terms


class LexicalSignal(BaseSignal):
    """What a bag of words leaves out: the mean of coverage, bigrams and early match, each in [0, 1].

    Coverage is the share of the query's distinct terms that the document has; bigrams, the share of its pairs of
    neighbouring terms that stand side by side in the document too (Metzler and Croft, SIGIR 2005: ordered windows);
    early match, the mean over its distinct terms of 1 / log2(2 + i), i the place where the document first has the term
    and 0 a term's worth where it lacks it. A query of one term has no bigrams. Nothing is known for a query without
    terms.
    """

    is_witness = False

    def prepare(self) -> None:
        terms("ready")

    def values(self, context: RAGtuneContext, documents: Sequence[ScoredDocument]) -> Mapping[str, float]:
        query = terms(context.query)
        return {document.id: _agreement(query, terms(document.content)) for document in documents} if query else {}


def _agreement(query: Sequence[str], document: Sequence[str]) -> float:
    first = {term: i for i, term in reversed(list(enumerate(document)))}
    wanted, bigrams = set(query), set(pairwise(query))
    found = sorted(first[term] for term in wanted if term in first)
    parts = [len(found) / len(wanted), math.fsum(1.0 / math.log2(2 + i) for i in found) / len(wanted)]
    if bigrams:
        parts.append(len(bigrams & set(pairwise(document))) / len(bigrams))
    return math.fsum(parts) / len(parts)
