"""How alike two rankings of the same documents are, without judgments."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations


def overlap(one: Sequence[Hashable], other: Sequence[Hashable], k: int = 10) -> float:
    """The share of the first k that both rankings have, in [0, 1]; 1 where there are no documents."""
    depth = min(k, len(one), len(other))
    return len({*one[:depth]} & {*other[:depth]}) / depth if depth else 1.0


def rank_biased_overlap(one: Sequence[Hashable], other: Sequence[Hashable], k: int = 10, p: float = 0.9) -> float:
    """Rank-biased overlap of the first k, extrapolated: RBO_ext of Webber, Moffat and Zobel (TOIS 2010), equation 32.

    Args:
        one, other: rankings, best first, each document once.
        k: how deep they are compared, >= 1.
        p: how patient a reader is, in (0, 1): the share of readers at one place who go on to the next.

    Returns:
        A number in [0, 1], 1 for equal rankings.
    """
    depth = min(k, len(one), len(other))
    if not depth:
        return 1.0
    seen_one: set[Hashable] = set()
    seen_other: set[Hashable] = set()
    weighted = agreement = 0.0
    for d in range(1, depth + 1):
        seen_one.add(one[d - 1])
        seen_other.add(other[d - 1])
        agreement = len(seen_one & seen_other) / d
        weighted += agreement * p ** (d - 1)
    return min(1.0, agreement * p**depth + (1 - p) * weighted)


def kendall_tau(one: Sequence[Hashable], other: Sequence[Hashable], k: int = 10) -> float:
    """Kendall's tau (1938) of the order in which ``one`` has the first k of ``other``, all of which it must have.

    Returns:
        A number in [-1, 1]: the share of pairs in the same order less that of pairs in the other; 1 for fewer than two.
    """
    place = {document: i for i, document in enumerate(one)}
    pairs = list(combinations([place[document] for document in other[:k]], 2))
    return sum(1 if first < second else -1 for first, second in pairs) / len(pairs) if pairs else 1.0


def gain_kept(ranking: Sequence[int], gains: Mapping[int, float], k: int = 10) -> float:
    """nDCG@k of a ranking where every document's gain is the full reranker's own score, in [0, 1].

    Without judgments the full reranker is the only judge there is: this says what its ranking is worth to itself, not
    to a reader. Where it does harm, a lower figure can be the better ranking.

    Args:
        ranking: documents, best first.
        gains: every document's gain, >= 0; linear gains, discounts of log2(1 + rank) (Jarvelin and Kekalainen 2002).
        k: how deep, >= 1.
    """
    best = _dcg(sorted(gains.values(), reverse=True)[:k])
    return min(1.0, _dcg([gains[document] for document in ranking[:k]]) / best) if best else 1.0


def _dcg(gains: Sequence[float]) -> float:
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))
