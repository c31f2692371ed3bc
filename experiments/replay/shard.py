"""Replays some queries of a collection together, by the shortest way there is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from experiments.evaluate.record import QueryRecord, Ranked
from experiments.replay.begun import Begun
from experiments.replay.build import Session
from experiments.replay.fixed_order import FixedOrders, has_fixed_order
from ragtune.core.errors import InputError
from ragtune.core.output import ControllerOutput
from ragtune.core.request.budget import CostBudget

_QUERIES, _CANDIDATES = 64, 6400
"""How many are replayed in one pass at most: more are no faster, and the rankings after each batch, which are in memory
together, grow with the square of a query's candidates."""


def at_once(session: Session) -> int:
    """How many queries to replay in one pass, where no score changes what the policy does."""
    return min(_QUERIES, max(1, _CANDIDATES // session.controller.rounds.plan.original_query_depth))


def in_shards(session: Session, query_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """The queries in shards of :func:`at_once`."""
    size = at_once(session)
    return (query_ids[start : start + size] for start in range(0, len(query_ids), size))


class ShardReplay:
    """Some queries through a session's policy: in one pass where no score changes what it does, else one by one.

    Args:
        session: policy and collection.
        query_ids: ids of the queries.
        begun: the requests, where other policies of a fixed order have begun them.
    """

    def __init__(self, session: Session, query_ids: Sequence[str], begun: Sequence[Begun] = ()) -> None:
        self._session = session
        self._query_ids = query_ids
        self._begun = begun

    def under(self, budget: CostBudget, *, traced: bool = True) -> list[QueryRecord]:
        """The records under a budget, in place of the session's; without traces where nobody will look at them.

        Raises:
            InputError: if a component does.
        """
        if has_fixed_order(self._session, budget) and (orders := self._orders):
            return orders.under(budget, traced=traced)
        return [QueryRecord.of(output, traced=traced) for output in self._run(budget)]

    def ranked_under(self, budget: CostBudget) -> list[Ranked]:
        """How the queries end under a budget, where nobody will look at more.

        Raises:
            InputError: if a component does.
        """
        if has_fixed_order(self._session, budget) and (orders := self._orders):
            return orders.ranked_under(budget)
        return [Ranked.of(QueryRecord.of(output, traced=False)) for output in self._run(budget)]

    def _run(self, budget: CostBudget) -> Iterable[ControllerOutput]:
        queries, run = self._session.dataset.queries, self._session.controller.run
        return (run(queries[query_id], budget, query_id=query_id) for query_id in self._query_ids)

    @cached_property
    def _orders(self) -> FixedOrders | None:
        """None where a component fails: what becomes of a request then is the loop's to say (rule F5)."""
        try:
            return FixedOrders(self._session, self._begun or begin(self._session, self._query_ids))
        except InputError:
            raise
        except Exception:
            return None


def begin(session: Session, query_ids: Iterable[str]) -> list[Begun]:
    """The requests of these queries.

    Raises:
        InputError: if a component does.
    """
    return [Begun(session, query_id) for query_id in query_ids]


class _Shelf(NamedTuple):
    begun: dict[str, Begun]
    replays: dict[tuple[str, tuple[str, ...]], ShardReplay]


class KeptReplays:
    """What was made of queries, for others who replay them with the same first stage: of the first, and the latest.

    Args:
        room: number of queries of which all is kept; of the others, that of the latest shard is.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._first, self._latest = _Shelf({}, {}), _Shelf({}, {})

    def of(self, session: Session, query_ids: Sequence[str], policy: str) -> ShardReplay:
        """The replay of these queries through the policy of that name, begun once for all policies.

        Raises:
            InputError: if a component does.
        """
        begun, replays = self._shelf(session, query_ids)
        key = policy, tuple(query_ids)
        if key not in replays:
            replays[key] = ShardReplay(session, query_ids, [begun[query_id] for query_id in query_ids])
        return replays[key]

    def _shelf(self, session: Session, query_ids: Sequence[str]) -> _Shelf:
        for shelf in (self._first, self._latest):
            if shelf.begun.keys() >= set(query_ids):
                return shelf
        if len(self._first.begun) + len(query_ids) > self._room:
            shelf = self._latest = _Shelf({}, {})
        else:
            shelf = self._first
        shelf.begun.update((each.context.query_id, each) for each in begin(session, query_ids))
        return shelf
