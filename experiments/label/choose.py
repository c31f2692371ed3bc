"""Chooses the pairs of documents whose judgments say most about the difference between two orders."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.config.compose import compose
from experiments.replay.build import session_for
from experiments.replay.records import records_of
from ragtune.core.errors import ConfigError

_POLICY = ("estimator", "scheduler", "assembler", "budget")

DEPTH = 10
"""Ranks that the measure looks at."""


@dataclass(frozen=True)
class Pair:
    """A document that the reranker moves up and one that it moves down, for the same query.

    Attributes:
        query_id: the query.
        up: id of the document that gains discount.
        down: id of the document that loses discount.
        weight: mean of what the first gains and the second loses, > 0.
    """

    query_id: str
    up: str
    down: str
    weight: float

    @property
    def shown(self) -> tuple[str, str]:
        """Both documents in an order that does not say which one the reranker prefers."""
        return (self.up, self.down) if _draw(0, f"{self.query_id} {self.up}") % 2 else (self.down, self.up)


@dataclass(frozen=True)
class Plan:
    """What to judge, in which order.

    Attributes:
        queries: ids of all queries, in the order in which they are visited.
        pairs: the first pair of each query in that order, then the second pair of each, and so on. A query whose top
            documents the reranker leaves alone has none.
    """

    queries: Sequence[str]
    pairs: Sequence[Pair]


def both_orders(config: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
    """Id of each query, its candidates in the first stage's order, and in the reranker's.

    Args:
        config: resolved configuration with recorded scores.

    Raises:
        ConfigError: if scores are not recorded.
        InputError: if a part of the configuration is unusable, or a score is missing.
    """
    everything = compose(["experiment=fixed_depth", "budget=tight", "budget.max_reranker_docs=null"])
    session = session_for({**config, **{group: everything[group] for group in _POLICY}})
    if not all(reranker.is_recorded for reranker in session.rerankers.values()):
        raise ConfigError("the scores must be recorded: reranker.scores=FILE")
    for record in records_of(session, session.dataset.query_ids, traced=False):
        yield record.query_id, record.states([0]).rankings()[0], record.ranking


def make_plan(rankings: Iterable[tuple[str, Sequence[str], Sequence[str]]], seed: int, depth: int = DEPTH) -> Plan:
    """Order all pairs of documents by what their judgments say.

    Only documents whose discount differs between the two orders can change the difference in DCG, and those whose
    discount differs most change it most: the minimal test collections of Carterette, Allan and Sitaraman (SIGIR 2006).
    A query's first pair are the documents that gain and lose most, its second pair the next ones. Queries are visited
    at random, one pair each before any second one: results differ more between queries than within one.

    Args:
        rankings: for each query its id, the first stage's order and the reranker's order of the same documents.
        seed: of the order of the queries, which does not depend on which other queries there are.
        depth: ranks that count, >= 1.
    """
    pairs = {query_id: list(_pairs(query_id, first, second, depth)) for query_id, first, second in rankings}
    queries = sorted(pairs, key=lambda query_id: (_draw(seed, query_id), query_id))
    rounds = max(map(len, pairs.values()), default=0)
    return Plan(queries, [pairs[q][i] for i in range(rounds) for q in queries if i < len(pairs[q])])


def changes(first: Sequence[str], second: Sequence[str], depth: int = DEPTH) -> dict[str, float]:
    """What each document of either top gains in discount, 1 / log2(rank + 1), where the second order takes over."""
    gains = dict.fromkeys([*first[:depth], *second[:depth]], 0.0)
    for order, sign in ((first, -1.0), (second, 1.0)):
        for rank, doc_id in enumerate(order[:depth], 1):
            gains[doc_id] += sign / math.log2(rank + 1)
    return gains


def _pairs(query_id: str, first: Sequence[str], second: Sequence[str], depth: int) -> Iterator[Pair]:
    gains: Mapping[str, float] = changes(first, second, depth)
    ups = sorted((d for d in gains if gains[d] > 0.0), key=lambda d: (-gains[d], second.index(d)))
    downs = sorted((d for d in gains if gains[d] < 0.0), key=lambda d: (gains[d], first.index(d)))
    for up, down in zip(ups, downs, strict=False):
        yield Pair(query_id, up, down, (gains[up] - gains[down]) / 2.0)


def _draw(seed: int, text: str) -> int:
    """A number that looks random and is the same everywhere."""
    return int.from_bytes(hashlib.sha256(f"{seed} {text}".encode()).digest()[:8], "big")
