"""Fuse (rules D8 and D16): several ranked lists into one, by the harness's own fusions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragtune.canonical.types import Candidate, CandidateSets
from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseFusion
from ragtune.core.types import ScoredDocument
from ragtune.fusion.concat import ConcatFusion
from ragtune.fusion.rrf import RRFFusion

_METHODS: dict[str, type[BaseFusion]] = {"rrf": RRFFusion, "concat": ConcatFusion}
_PARAMS = {"rrf": {"k", "weights"}, "concat": set[str]()}


def fuse(
    candidate_sets: CandidateSets, method: str = "rrf", params: Mapping[str, Any] | None = None
) -> list[Candidate]:
    """One list without duplicates, best first, ties by (doc_id, chunk_index).

    Args:
        candidate_sets: ranked lists, each best first, by name or in order; the order of lists matters to ``concat``
            only.
        method: ``rrf`` (:class:`ragtune.fusion.rrf.RRFFusion`) or ``concat``
            (:class:`ragtune.fusion.concat.ConcatFusion`).
        params: the fusion's arguments: of ``rrf``, ``k`` (60 by default) and ``weights`` by the name of a list; of
            ``concat``, none.

    Returns:
        Candidates with the fusion's score. ``sources`` joins those of all copies, and has a candidate's score in every
        list that has a name.

    Raises:
        ConfigError: on an unknown method or argument, one out of range, or the weight of a list that is not there.
    """
    return fuse_first(None, candidate_sets, method, params or {})


def fuse_first(k: int | None, candidate_sets: CandidateSets, method: str, params: Mapping[str, Any]) -> list[Candidate]:
    """The first ``k`` of what :func:`fuse` gives, or all for None; copies of the others are not made."""
    fusion = _fusion(method, params)
    has_names = isinstance(candidate_sets, Mapping)
    known = sorted(candidate_sets) if isinstance(candidate_sets, Mapping) else []
    for name in params.get("weights") or ():
        if name not in known:
            allowed = ", ".join(known) or "none, since no list has a name"
            raise ConfigError(f"fuse {method} weights {name!r}: allowed are {allowed}")
    named = _named(candidate_sets)
    copies: dict[tuple[str, int], list[Candidate]] = {}
    for candidates in named.values():
        for candidate in candidates:
            copies.setdefault(candidate.key, []).append(candidate)
    # Fusions break ties by id, so the ids are the places in the order of keys.
    keys = sorted(copies)
    ids = {key: f"{place:09d}" for place, key in enumerate(keys)}
    lists = {
        name: [ScoredDocument(id=ids[candidate.key], score=candidate.score) for candidate in candidates]
        for name, candidates in named.items()
    }
    return [_merged(copies[keys[int(doc.id)]], doc, has_names) for doc in fusion.fuse(lists)[:k]]


def _fusion(method: str, params: Mapping[str, Any]) -> BaseFusion:
    if method not in _METHODS:
        raise ConfigError(f"fuse method={method!r}: allowed are {', '.join(_METHODS)}")
    for name in params:
        if name not in _PARAMS[method]:
            raise ConfigError(
                f"fuse {method} {name}: allowed are {', '.join(sorted(_PARAMS[method])) or 'no arguments'}"
            )
    return _METHODS[method](**params)


def _named(candidate_sets: CandidateSets) -> dict[str, Sequence[Candidate]]:
    if isinstance(candidate_sets, Mapping):
        return dict(candidate_sets)
    return {f"{place:09d}": candidates for place, candidates in enumerate(candidate_sets)}


def _merged(copies: Sequence[Candidate], fused: ScoredDocument, has_names: bool) -> Candidate:
    sources: dict[str, float] = {}
    for copy in copies:
        sources = {**copy.sources, **sources}
    if has_names:
        sources |= fused.sources
    return copies[0].model_copy(update={"score": fused.score, "sources": dict(sorted(sources.items()))})
