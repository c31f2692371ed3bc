"""Models that are tried one after the other, and the first stage's order where none has an answer in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import NamedTuple

from ragtune.core.interfaces import BaseReranker
from ragtune.core.types import FREE, STRATEGY_CLOSED, CostObject, StopRecord
from ragtune.core.units import CALLS, DOCS, TIME, TOKENS, UNITS
from ragtune.facade.candidates import candidates
from ragtune.facade.ranking import RankedDocument, Ranking
from ragtune.facade.reranker import BudgetedReranker, Job
from ragtune.services.batching import SharedCalls
from ragtune.services.turns import ServedReranker, Turns

FIRST_STAGE = "first stage"
"""What answers where no model does."""

_SHARE = 0.6  # of the time that is left, for a model that another one comes after
_PER_MODEL = frozenset({DOCS.short, CALLS.short, TIME.short})  # limits of each model: what failed scored nothing

_UNPRICED = _PER_MODEL | {TOKENS.short}


@dataclass(frozen=True)
class Model:
    """A reranker, its name in answers, and whether requests share its calls, as those of a model in this process."""

    name: str
    reranker: BaseReranker
    is_local: bool = False


class Hop(NamedTuple):
    """What a model did for a request: ``scored``, ``failed``, ``late``, or ``closed`` since it failed before."""

    model: str
    outcome: str
    message: str = ""


@dataclass(frozen=True)
class ServedRanking(Ranking):
    """A ranking, and what each model did for it."""

    hops: tuple[Hop, ...] = ()

    @property
    def answered_by(self) -> str:
        """The model that scored, or the first stage."""
        return next((hop.model for hop in self.hops if hop.outcome == "scored"), FIRST_STAGE)


class Link:
    """A model of the chain, with a ranker that keeps to a budget and one that scores everything."""

    def __init__(self, model: Model, turns: Turns, observe: Callable[[int], None], *, is_first: bool) -> None:
        self.name = model.name
        self._is_free = model.is_local and not is_first
        self.shared = SharedCalls(model.reranker, observe=observe) if model.is_local else None
        self.asked = ServedReranker(self.shared or model.reranker, turns)
        self.has_failed = False  # the latest request

    def set_up(self, make: Callable[[Link, bool], BudgetedReranker]) -> None:
        """Make both rankers, and load the model."""
        self.choosy, self.full = make(self, False), make(self, True)
        for ranker in (self.choosy, self.full):
            ranker.warm_up()

    def kept(self, limits: Mapping[str, float]) -> dict[str, float]:
        """The limits that this model can have: dollars and the like limit no model of this machine behind another."""
        return {unit: limit for unit, limit in limits.items() if not self._is_free or unit in _UNPRICED}

    @property
    def closed(self) -> str | None:
        return self.choosy.closed or self.full.closed

    def stop(self) -> None:
        self.asked.stop()
        if self.shared is not None:
            self.shared.stop()

    def close(self) -> None:
        if self.shared is not None:
            self.shared.close()


class Chain:
    """The models in order, and what becomes of a request's budget between them."""

    def __init__(self, links: Sequence[Link]) -> None:
        self._links = links

    @contextmanager
    def expected(self) -> Iterator[None]:
        """While it lasts, models of this process score nothing in the background."""
        shared = [link.shared for link in self._links if link.shared is not None]
        for each in shared:
            each.count(1)
        try:
            yield
        finally:
            for each in shared:
                each.count(-1)

    def rank(self, job: Job, limits: Mapping[str, float], left_ms: float, *, in_full: bool) -> ServedRanking:
        """The ranking of the first model that scores something, with the cost of all."""
        end = time.monotonic() + left_ms / 1000.0
        hops: list[Hop] = []
        spent = possible = FREE
        ranking: Ranking | None = None
        for link in self._links:
            if (why := link.closed) is not None:
                hops.append(Hop(link.name, "closed", why))
                continue
            share = 1.0 if link is self._links[-1] else _SHARE
            time_ms = 1000.0 * max(0.0, end - time.monotonic()) * share
            budget = link.kept(_less(limits, spent)) | {TIME.short: time_ms}
            ranking = (link.full if in_full else link.choosy).rank(**job._asdict(), budget=budget)
            hops.append(hop := _hop(link.name, ranking))
            link.has_failed = hop.outcome == "failed"
            spent, possible = spent + ranking.cost, possible + ranking.possible
            if hop.outcome == "scored":
                break
            spent = spent.model_copy(update={"docs": 0})  # none was scored
        if ranking is None:
            return first_stage(job, STRATEGY_CLOSED, hops[-1].message, tuple(hops))
        more = {"cost": spent, "possible": possible, "hops": tuple(hops)}
        return ServedRanking(**{each.name: getattr(ranking, each.name) for each in fields(ranking)} | more)


def _less(limits: Mapping[str, float], spent: CostObject) -> dict[str, float]:
    used = {unit.short: getattr(spent, unit.name) for unit in UNITS}
    return {unit: limit if unit in _PER_MODEL else max(0, limit - used[unit]) for unit, limit in limits.items()}


def _hop(model: str, ranking: Ranking) -> Hop:
    """A model that scored nothing has failed, unless the policy wanted nothing of it."""
    stop, message = ranking.stop, ranking.batches.first_error or ""
    if any(one.reranked for one in ranking):
        return Hop(model, "scored")
    if ranking.batches.failed or (stop is not None and stop.reason == STRATEGY_CLOSED):
        return Hop(model, "failed", message)
    if stop is not None and is_timed(stop):
        return Hop(model, "late", stop.message)
    return Hop(model, "scored")


def is_timed(stop: StopRecord) -> bool:
    """Whether a ranking ended because of its time."""
    return "elapsed" in stop.details or stop.details.get("limit") == TIME.name


def first_stage(job: Job, reason: str, message: str, hops: tuple[Hop, ...] = ()) -> ServedRanking:
    """The first stage's order, which costs nothing and says why there is no more."""
    order = [int(one.id) for one in candidates(*job[1:])]
    ranked = [RankedDocument(i, 1.0 / (2.0 + rank), None, job.documents[i]) for rank, i in enumerate(order)]
    stop = StopRecord(reason=reason, source="server", message=message)
    note = f"the documents are in the first stage's order: {message}"
    return ServedRanking(tuple(ranked), FREE, stop=stop, notes=(note,), hops=hops)
