"""A share of the requests, reranked in full as well: what the budget loses, measured where it runs."""

from __future__ import annotations

import math
import queue
import random
import sys
import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from ragtune.canonical.permit import Permit
from ragtune.core.arguments import check_number
from ragtune.core.errors import ConfigError, InputError
from ragtune.core.statistics import gain_kept, overlap, rank_biased_overlap
from ragtune.core.types import FREE, CostObject
from ragtune.facade.ranking import Ranking
from ragtune.facade.reranker import BudgetedReranker, Job
from ragtune.services.learn import TOLERANCE, Learner

_DEPTH = 10
_WAITING, _REMEMBERED = 32, 10_000
_LONGEST_CLOSE_S = 2.0


class ShadowRecord(BaseModel):
    """One request, as answered and in full; ``quality`` is nDCG@10 by the model's scores, orders are the first 10."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    at: str
    model: str
    policy: str
    budget: Mapping[str, float]
    documents: NonNegativeInt
    reranked: NonNegativeInt
    overlap: float = Field(ge=0.0, le=1.0)
    rbo: float = Field(ge=0.0, le=1.0)
    quality: float = Field(ge=0.0, le=1.0)
    spent: CostObject
    full: CostObject
    served_order: tuple[NonNegativeInt, ...]
    full_order: tuple[NonNegativeInt, ...]


class MeanInterval(NamedTuple):
    """A mean over requests, and the 95% interval of it by Student's t; no bounds below two requests."""

    mean: float
    low: float
    high: float


FIGURES = {
    "overlap": "overlap of the top 10",
    "rbo": "rank-biased overlap of the top 10",
    "quality_loss": "estimated loss of nDCG@10",
    "saved_docs": "documents saved a request",
    "saved_tokens": "tokens saved a request",
    "saved_ms": "milliseconds saved a request",
    "saved_usd": "dollars saved a request",
}
"""What :func:`figures` tells, in words."""


def figures(records: Sequence[ShadowRecord]) -> dict[str, MeanInterval]:
    """What the records say: agreement, estimated loss, and what a request saves."""
    return {
        "overlap": _interval([one.overlap for one in records], 0.0, 1.0),
        "rbo": _interval([one.rbo for one in records], 0.0, 1.0),
        "quality_loss": _interval([1.0 - one.quality for one in records], 0.0, 1.0),
        "saved_docs": _interval([one.full.docs - one.spent.docs for one in records]),
        "saved_tokens": _interval([one.full.tokens - one.spent.tokens for one in records]),
        "saved_ms": _interval([one.full.latency_ms - one.spent.latency_ms for one in records]),
        "saved_usd": _interval([one.full.usd - one.spent.usd for one in records]),
    }


def _interval(values: Sequence[float], low: float = -math.inf, high: float = math.inf) -> MeanInterval:
    from scipy.special import stdtrit

    count = len(values)
    mean = math.fsum(values) / count if count else math.nan
    if count < 2:
        return MeanInterval(mean, math.nan, math.nan)
    spread = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    half = float(stdtrit(count - 1, 0.975)) * math.sqrt(spread / count)
    return MeanInterval(mean, max(low, mean - half), min(high, mean + half))


def read_records(file: Path) -> tuple[list[ShadowRecord], int]:
    """The records of a file of JSON lines, and how many of its lines are none, as a crash cuts them short."""
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from None
    records = []
    for line in lines:
        with suppress(ValidationError):
            records.append(ShadowRecord.model_validate_json(line))
    if not records:
        raise InputError(f"{file}: holds no record of a shadowed request; ragtune serve --shadow writes them")
    return records, len(lines) - len(records)


@dataclass(frozen=True)
class ShadowOptions:
    """The share of the requests with a budget that is shadowed, in (0, 1], and a file for a line of JSON each.

    ``learn`` is the file of a :class:`~ragtune.services.learn.Learner`, which chooses the budget.
    """

    share: float
    file: Path | None = None
    learn: Path | None = None
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        if check_number("shadow share", self.share, low=0.0, high=1.0) == 0.0:
            raise ConfigError("shadow share=0: allowed is a number in (0, 1]")
        if not 0.0 < check_number("learn loss", self.tolerance, low=0.0, high=1.0) < 1.0:
            raise ConfigError(f"learn loss={self.tolerance:g}: allowed is a number in (0, 1), e.g. {TOLERANCE}")
        if self.file is None:
            return
        try:
            self.file.open("a").close()
        except OSError as error:
            raise ConfigError(f"shadow file {self.file}: cannot be written ({error})") from error


class Shadow:
    """Reranks in full what a share of answers were chosen from, while no request is under way, and compares."""

    def __init__(
        self,
        options: ShadowOptions,
        model: str,
        policy: str,
        ranker: BudgetedReranker,
        learner: Learner | None = None,
    ) -> None:
        self.learner = learner
        self._options = options
        self._model = model
        self._policy = policy
        self._ranker = ranker
        self._draws = random.Random(0)  # noqa: S311 - a sample, no secret
        self._lock = threading.Lock()
        self._records: deque[ShadowRecord] = deque(maxlen=_REMEMBERED)
        self.spent = FREE
        self.outcomes = Counter(measured=0, failed=0, dropped=0)  # of the requests taken
        self._queue: queue.Queue[tuple[Job, Ranking, Mapping[str, float]] | None] = queue.Queue(_WAITING)
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="ragtune-shadow", daemon=True)
        self._thread.start()

    def offer(self, job: Job, ranking: Ranking, budget: Mapping[str, float], *, is_own: bool = True) -> None:
        if self.learner is not None and is_own:
            self.learner.hear(job, ranking)
        elif not budget:
            return
        with self._lock:
            is_taken = not budget or self._draws.random() < self._options.share
        if not is_taken or self._is_closed.is_set():
            return
        try:
            self._queue.put_nowait((job, ranking, budget))
        except queue.Full:
            self._count("dropped")

    def close(self) -> None:
        """End the thread; what waits is dropped, and a call that hangs is not waited for. Closing twice is harmless."""
        self._is_closed.set()
        with suppress(queue.Full):  # then the thread sees the event at the next one
            self._queue.put_nowait(None)
        self._thread.join(_LONGEST_CLOSE_S)

    def figures(self) -> dict[str, MeanInterval]:
        """What the latest 10,000 records say together."""
        with self._lock:
            records = [*self._records]
        return figures(records)

    def _count(self, outcome: str) -> None:
        with self._lock:
            self.outcomes[outcome] += 1

    def _work(self) -> None:
        while (served := self._queue.get()) is not None and not self._is_closed.is_set():
            try:
                if not served[2]:  # it was read in full
                    self._learn(*served[:2])
                    continue
                record = self._measured(*served)
            except Exception as error:  # whatever a model raises must not end the thread
                sys.stderr.write(f"ragtune: a shadowed request failed: {error}\n")
                record = None
            if record is None:
                self._count("failed")
                continue
            with self._lock:
                self.outcomes["measured"] += 1
                self._records.append(record)
            self._write(record)

    def _measured(self, job: Job, ranking: Ranking, budget: Mapping[str, float]) -> ShadowRecord | None:
        """The record; None if a document could not be read, so that there is no full ranking to compare with."""
        # Those that the answer has read are read again, in as few calls as the ranker makes: so what everything costs
        # is measured too, which is more than a part's cost and the other's where a call has a price of its own.
        permit = Permit(is_background=True)
        with permit.used():
            everything = self._ranker.rank(**job._asdict())
        took_ms = max(0.0, everything.cost.latency_ms - permit.queued_ms)
        cost = everything.cost.model_copy(update={"latency_ms": took_ms})
        self.spent += cost
        gains = {one.index: one.reranker_score for one in everything if one.reranker_score is not None}
        order = [one.index for one in ranking]
        if len(gains) < len(order):
            return None
        self._learn(job, everything)
        full = [one.index for one in everything]
        return ShadowRecord(
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            model=self._model,
            policy=self._policy,
            budget=budget,
            documents=len(order),
            reranked=sum(one.reranked for one in ranking),
            overlap=overlap(order, full, _DEPTH),
            rbo=rank_biased_overlap(order, full, _DEPTH),
            quality=gain_kept(order, gains, _DEPTH),
            spent=ranking.cost,
            full=cost,
            served_order=tuple(order[:_DEPTH]),
            full_order=tuple(full[:_DEPTH]),
        )

    def _learn(self, job: Job, everything: Ranking) -> None:
        if self.learner is not None:
            self.learner.measure(job, everything)

    def _write(self, record: ShadowRecord) -> None:
        if self._options.file is None:
            return
        try:
            with self._options.file.open("a", encoding="utf-8") as kept:
                kept.write(record.model_dump_json(exclude_none=True) + "\n")
        except OSError as error:
            sys.stderr.write(f"ragtune: {self._options.file}: a shadowed request was not written ({error})\n")
