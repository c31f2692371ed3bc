"""Compress (rules D10 and D16): the sentences of candidates that matter for the query, within a budget."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ragtune.canonical.policies import CompressPolicy
from ragtune.canonical.splitters.units import TokenizedText, pack, sentences, words
from ragtune.canonical.types import Candidate
from ragtune.data.text import marked_terms as terms

_DEFAULT = CompressPolicy()


@dataclass
class _Sentence:
    """A sentence of a candidate: its place in both, span, tokens, terms shared with the query, and score."""

    candidate: int
    number: int
    start: int
    end: int
    tokens: int
    matches: frozenset[str]
    score: float = 0.0


def compress(query: str, candidates: Sequence[Candidate], policy: CompressPolicy | None = None) -> list[dict[str, Any]]:
    """Excerpts of the candidates: windows or spans of sentences around those that match the query best; deterministic.

    A sentence's score is the share of the query that it covers, in [0, 1]: the idf of the query's terms that it holds
    over the idf of all of them (BM25's idf over the candidates' sentences; terms by
    :func:`ragtune.data.text.marked_terms`).
    Around the best sentence of each candidate (``windows``: also where none matches, then the first), or around every
    sentence that matches (``spans``), ``policy.window`` sentences on each side are taken. The best ones choose first;
    where a whole window does not fit into the rest of ``policy.max_tokens``, the sentence alone is taken if it fits.
    Sentences that touch make one excerpt. A sentence longer than the whole budget is cut as in chunking.

    Args:
        query: the query that excerpts are chosen for.
        candidates: best first; of equal sentences the earlier candidate's goes first.
        policy: how excerpts are made; None takes the default.

    Returns:
        In the order of the candidates and then of their text: dicts with ``doc_id``, ``chunk_index``, ``start``,
        ``end`` (characters of the candidate's content), ``text`` (exactly that span), ``score`` (of the best sentence
        in it) and ``tokens``, which in all are at most ``policy.max_tokens``. Candidates may have none.

    Examples:
        >>> from ragtune.canonical.compression import compress
        >>> from ragtune.canonical.types import Candidate
        >>> found = Candidate(doc_id="d1", chunk_index=0, content="Tea is a plant. It is green.", score=1.0)
        >>> [excerpt["doc_id"] for excerpt in compress("green tea", [found])]
        ['d1']
    """
    policy = policy or _DEFAULT
    wanted = frozenset(terms(query))
    texts = [list(_sentences(place, c.content, wanted, policy)) for place, c in enumerate(candidates)]
    _score([sentence for text in texts for sentence in text], wanted)
    chosen = _choose(texts, policy)
    return [
        _excerpt(candidate, [text[number] for number in run])
        for candidate, text, numbers in zip(candidates, texts, chosen, strict=True)
        for run in _runs(numbers)
    ]


def _sentences(candidate: int, content: str, wanted: frozenset[str], policy: CompressPolicy) -> Iterator[_Sentence]:
    text = TokenizedText.of(content)
    if not len(text):
        return
    starts = sentences(text).tolist()
    finer = [words(text, policy.max_tokens)]
    number = 0
    for low, high in zip([0, *starts], [*starts, len(text)], strict=True):
        pieces = [(low, high)] if high - low <= policy.max_tokens else pack(finer, low, high, policy.max_tokens)
        for first, last in pieces:
            start, end = int(text.starts[first]), int(text.ends[last - 1])
            matches = wanted.intersection(terms(content[start:end]))
            yield _Sentence(candidate, number, start, end, last - first, matches)
            number += 1


def _score(every: Sequence[_Sentence], wanted: frozenset[str]) -> None:
    frequency = Counter(term for sentence in every for term in sentence.matches)
    idf = {term: math.log1p((len(every) - frequency[term] + 0.5) / (frequency[term] + 0.5)) for term in wanted}
    total = math.fsum(idf.values())  # exact, so the order of a set does not matter
    for sentence in every:
        if sentence.matches:
            sentence.score = math.fsum(idf[term] for term in sentence.matches) / total


def _choose(texts: Sequence[Sequence[_Sentence]], policy: CompressPolicy) -> list[set[int]]:
    left = policy.max_tokens
    chosen: list[set[int]] = [set() for _ in texts]
    for seed in sorted(_seeds(texts, policy), key=lambda s: (-s.score, s.candidate, s.number)):
        text, taken = texts[seed.candidate], chosen[seed.candidate]
        around = range(max(0, seed.number - policy.window), min(len(text), seed.number + policy.window + 1))
        for numbers in (set(around), {seed.number}):
            cost = sum(text[number].tokens for number in numbers - taken)
            if cost <= left:
                taken |= numbers
                left -= cost
                break
    return chosen


def _seeds(texts: Sequence[Sequence[_Sentence]], policy: CompressPolicy) -> list[_Sentence]:
    if policy.method == "spans":
        return [sentence for text in texts for sentence in text if sentence.matches]
    return [max(text, key=lambda sentence: sentence.score) for text in texts if text]


def _runs(numbers: set[int]) -> Iterator[list[int]]:
    """Groups of consecutive numbers, ascending."""
    for _, group in groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0]):
        yield [number for _, number in group]


def _excerpt(candidate: Candidate, run: Sequence[_Sentence]) -> dict[str, Any]:
    start, end = run[0].start, run[-1].end
    return {
        "doc_id": candidate.doc_id,
        "chunk_index": candidate.chunk_index,
        "start": start,
        "end": end,
        "text": candidate.content[start:end],
        "score": max(sentence.score for sentence in run),
        "tokens": sum(sentence.tokens for sentence in run),
    }
