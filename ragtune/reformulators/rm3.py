"""Pseudo-relevance feedback by a relevance model."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from ragtune.core.arguments import check_count, check_number
from ragtune.core.interfaces import BaseReformulator
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.caches.diskcache import AUTO, DiskCache
from ragtune.data.corpus import Corpus
from ragtune.data.text import analyzer_id, terms, words_and_terms

_FILE = "terms.json"


class RM3Reformulator(BaseReformulator):
    """RM3: the query interpolated with a relevance model of the documents that it found.

    The relevance model is P(w|R) ~ sum over the feedback documents D of P(w|D) P(D|Q) (Lavrenko and Croft, SIGIR 2001,
    RM1), cut to its ``fb_terms`` best terms and mixed with the query's own model,
    P'(w|Q) = original_query_weight P(w|Q) + (1 - original_query_weight) P(w|R) (Abdul-Jaleel et al., TREC 2004, RM3).
    P(w|D) is the maximum likelihood estimate over the terms that pass the document frequency limits, P(D|Q) the
    retrieval score normalised to sum 1 (shifted to a minimum of 0 where scores are not all positive, uniform where
    they are all equal).

    The rewrite is plain text for any lexical retriever: engines without weighted queries count a repeated term as
    often as it is repeated, so every term stands there in proportion to its weight, about ``resolution`` words in all.
    A term is written as the word that the corpus uses most for it, since stems themselves do not stem back.
    """

    def __init__(
        self,
        corpus: Corpus,
        fb_docs: int = 10,
        fb_terms: int = 10,
        original_query_weight: float = 0.5,
        min_df: int = 2,
        max_df_ratio: float = 0.1,
        resolution: int = 100,
        cache_dir: str | Path | None = AUTO,
    ) -> None:
        self.fb_docs = check_count("rm3 fb_docs", fb_docs, low=1)
        self.fb_terms = check_count("rm3 fb_terms", fb_terms, low=1)
        self.original_query_weight = check_number("rm3 original_query_weight", original_query_weight, 0.0, 1.0)
        self.min_df = check_count("rm3 min_df", min_df, low=1)
        self.max_df_ratio = check_number("rm3 max_df_ratio", max_df_ratio, low=1e-9, high=1.0)
        self.resolution = check_count("rm3 resolution", resolution, low=fb_terms)
        self._size = len(corpus)
        key = f"{corpus.digest} {analyzer_id()}"
        self._statistics: Mapping[str, tuple[int, str]] = DiskCache("rm3", cache_dir).fetch(
            key,
            lambda: term_statistics(corpus.contents),
            lambda found, folder: (folder / _FILE).write_text(json.dumps(found), encoding="utf-8"),
            lambda folder: json.loads((folder / _FILE).read_text(encoding="utf-8")),
        )

    def generate(self, context: RAGtuneContext, first_round: Sequence[ScoredDocument]) -> list[str]:
        """One expanded query; none if the query has no term, nothing was found, or no term passes the limits."""
        query_words = words_and_terms(context.query)
        relevance = self._relevance_model(first_round[: self.fb_docs])
        if not query_words or not relevance:
            return []
        counts = Counter(term for _, term in query_words)
        share = self.original_query_weight
        weights = {term: share * n / len(query_words) for term, n in counts.items()}
        for term, p in relevance.items():
            weights[term] = weights.get(term, 0.0) + (1.0 - share) * p
        surface = {term: word for word, term in reversed(query_words)}
        return [self._write(weights, surface)]

    def _relevance_model(self, documents: Sequence[ScoredDocument]) -> dict[str, float]:
        """P(w|R) over the best ``fb_terms`` terms, summing to 1; best first, ties by term."""
        model: dict[str, float] = defaultdict(float)
        for doc, weight in zip(documents, _document_weights(documents), strict=True):
            counts = Counter(term for term in terms(doc.content) if self._is_discriminative(term))
            total = counts.total()
            for term, n in counts.items():
                model[term] += weight * n / total
        best = sorted((item for item in model.items() if item[1] > 0), key=lambda item: (-item[1], item[0]))
        best = best[: self.fb_terms]
        mass = math.fsum(p for _, p in best)
        return {term: p / mass for term, p in best}

    def _is_discriminative(self, term: str) -> bool:
        df, _ = self._statistics.get(term, (0, ""))
        # The upper limit never falls below the lower one, or a tiny corpus would have no terms at all.
        return self.min_df <= df <= max(self.min_df, self.max_df_ratio * self._size)

    def _write(self, weights: Mapping[str, float], surface: Mapping[str, str]) -> str:
        """Every term as a word, repeated in proportion to its weight, at least once; heaviest first."""
        words: list[str] = []
        for term, weight in sorted(weights.items(), key=lambda item: (-item[1], item[0])):
            word = surface.get(term) or self._statistics[term][1]
            words += [word] * max(1, round(weight * self.resolution))
        return " ".join(words)


def term_statistics(texts: Sequence[str]) -> Mapping[str, tuple[int, str]]:
    """Document frequency and commonest word (ties: the first in the alphabet) of every term of the texts."""
    df: Counter[str] = Counter()
    words: dict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        pairs = words_and_terms(text)
        df.update({term for _, term in pairs})
        for word, term in pairs:
            words[term][word] += 1
    return {term: (n, min(words[term], key=lambda w: (-words[term][w], w))) for term, n in df.items()}


def _document_weights(documents: Sequence[ScoredDocument]) -> list[float]:
    scores = [doc.score for doc in documents]
    low = min(scores, default=0.0)
    if low <= 0:
        scores = [score - low for score in scores]
    total = math.fsum(scores)
    return [score / total if total > 0 else 1.0 / len(scores) for score in scores]
