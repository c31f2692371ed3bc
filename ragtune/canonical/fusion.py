"""Fuse (rule D8): several ranked lists into one, by ranks or by scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ragtune.canonical.types import Candidate, CandidateSets
from ragtune.core.arguments import check_choice, check_number

Key = TypeVar("Key")
Lists = Mapping[str, Sequence[tuple[Key, float]]]
"""Keys with scores, best first, by the name of their list."""

VECTOR, LEXICAL = "vector", "lexical"
"""Names of the two lists, in ``Candidate.sources``."""


def fuse(
    candidate_sets: CandidateSets, method: str = "rrf", params: Mapping[str, Any] | None = None
) -> list[Candidate]:
    """One list without duplicates, best first, ties by (doc_id, chunk_index).

    Args:
        candidate_sets: ranked lists, each best first, by name or in order; the order of lists matters to ``concat``
            only.
        method: ``rrf`` (reciprocal rank fusion, Cormack et al. 2009: the sum over lists of w / (k + rank)), ``scores``
            (the weighted mean of the lists' scores, each list's lowest to highest scaled to 0 to 1 and 0 where a list
            lacks the candidate; Fox and Shaw 1994, Bruch et al. 2023), or ``concat`` (one list after the other).
        params: of ``rrf``, ``k`` (60 by default) and ``weights`` by the name of a list (1 by default); of ``scores``,
            ``weights``; of ``concat``, none.

    Returns:
        Candidates with the fusion's score. ``sources`` joins those of all copies, and has a candidate's score in every
        list that has a name.

    Raises:
        ConfigError: on an unknown method or argument, one out of range, or the weight of a list that is not there.

    Examples:
        >>> from ragtune.canonical.fusion import fuse
        >>> from ragtune.canonical.types import Candidate
        >>> one, two = (Candidate(doc_id=name, chunk_index=0, content=name, score=1.0) for name in ("d1", "d2"))
        >>> [found.doc_id for found in fuse({"lexical": [one, two], "vector": [two]})]
        ['d2', 'd1']
    """
    return fuse_first(None, candidate_sets, method, params or {})


def fuse_first(k: int | None, candidate_sets: CandidateSets, method: str, params: Mapping[str, Any]) -> list[Candidate]:
    """The first ``k`` of what :func:`fuse` gives, or all for None; copies of the others are not made."""
    has_names = isinstance(candidate_sets, Mapping)
    if isinstance(candidate_sets, Mapping):
        named = dict(candidate_sets)
    else:
        named = {f"{place:09d}": candidates for place, candidates in enumerate(candidate_sets)}
    for name in params.get("weights") or ():
        check_choice(f"fuse {method} weights", name, sorted(named) if has_names else ("none",))
    scores = fused_scores(
        {name: [(one.key, one.score) for one in ones] for name, ones in named.items()}, method, params
    )
    copies: dict[tuple[str, int], list[tuple[str, Candidate]]] = {}
    first = sorted(scores, key=lambda key: (-scores[key], key))[:k]
    wanted = set(first)
    for name, candidates in named.items():
        for candidate in candidates:
            if candidate.key in wanted:
                copies.setdefault(candidate.key, []).append((name, candidate))
    return [_merged(copies[key], scores[key], has_names) for key in first]


def fused_scores(lists: Lists[Key], method: str, params: Mapping[str, Any]) -> dict[Key, float]:
    """The fusion's score by key; of a list's copies of a key, the first counts."""
    fusion, allowed = _METHODS[check_choice("fuse method", method, _METHODS)]
    for name in params:
        check_choice(f"fuse {method} params", name, allowed or ("none",))
    return fusion(lists, **params)


def _rrf(lists: Lists[Key], k: float = 60.0, weights: Mapping[str, float] | None = None) -> dict[Key, float]:
    k = check_number("rrf k", k, low=0.0)
    parts: dict[Key, list[float]] = {}
    for name, ranked in lists.items():
        weight = _weight(weights, name)
        ranks: dict[Key, int] = {}
        for rank, (key, _) in enumerate(ranked, start=1):
            ranks.setdefault(key, rank)
        for key, rank in ranks.items():
            parts.setdefault(key, []).append(weight / (k + rank))
    return {key: math.fsum(found) for key, found in parts.items()}


def _by_scores(lists: Lists[Key], weights: Mapping[str, float] | None = None) -> dict[Key, float]:
    total = math.fsum(_weight(weights, name) for name in lists) or 1.0
    parts: dict[Key, list[float]] = {}
    for name, ranked in lists.items():
        weight = _weight(weights, name) / total
        scores = dict(reversed(ranked))
        low, high = min(scores.values(), default=0.0), max(scores.values(), default=0.0)
        for key, score in scores.items():
            parts.setdefault(key, []).append(weight * ((score - low) / (high - low) if high > low else 1.0))
    return {key: round(math.fsum(found), 12) for key, found in parts.items()}


def _concatenated(lists: Lists[Key]) -> dict[Key, float]:
    keys = dict.fromkeys(key for ranked in lists.values() for key, _ in ranked)
    return {key: 1.0 / rank for rank, key in enumerate(keys, start=1)}


_METHODS: dict[str, tuple[Callable[..., dict[Any, float]], tuple[str, ...]]] = {
    "rrf": (_rrf, ("k", "weights")),
    "scores": (_by_scores, ("weights",)),
    "concat": (_concatenated, ()),
}
"""With the names of their arguments."""


def _weight(weights: Mapping[str, float] | None, name: str) -> float:
    return check_number(f"weight of {name}", (weights or {}).get(name, 1.0), low=0.0)


def _merged(copies: Sequence[tuple[str, Candidate]], score: float, has_names: bool) -> Candidate:
    sources: dict[str, float] = {}
    for _, copy in copies:
        sources = {**copy.sources, **sources}
    if has_names:
        sources |= {name: copy.score for name, copy in reversed(copies)}
    return copies[0][1].model_copy(update={"score": score, "sources": dict(sorted(sources.items()))})
