"""A share of the requests, reranked in full as well: what the budget loses, measured where it runs."""

from __future__ import annotations

import errno
import os
import queue
import random
import sys
import threading
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ragtune.core.arguments import check_number
from ragtune.core.errors import ConfigError
from ragtune.core.statistics import gain_kept, overlap, rank_biased_overlap
from ragtune.core.types import FREE, CostObject
from ragtune.services.background import Background
from ragtune.services.shadow_records import DEPTH, Interval, ShadowRecord, figures

if TYPE_CHECKING:
    from ragtune.facade.ranking import Ranking
    from ragtune.facade.reranker import BudgetedReranker, Job

_WAITING, _REMEMBERED = 32, 10_000
_LONGEST_CLOSE_S = 2.0


@dataclass(frozen=True)
class ShadowOptions:
    """What is shadowed, and what is kept of it.

    Attributes:
        share: of the requests with a budget, in (0, 1].
        file: where each record is appended as a line of JSON; None keeps none.
        with_texts: whether a record holds the query and the first documents of both rankings.

    Raises:
        ConfigError: on an argument out of range, or a file that cannot be written.
    """

    share: float
    file: Path | None = None
    with_texts: bool = False

    def __post_init__(self) -> None:
        if check_number("shadow share", self.share, low=0.0, high=1.0) == 0.0:
            raise ConfigError("shadow share=0: allowed is a number in (0, 1]")
        if self.file is None:
            return
        try:
            _append(self.file, "")
        except OSError as error:
            raise ConfigError(f"shadow file {self.file}: cannot be written ({error})") from error


class Served(NamedTuple):
    """A request that has its answer."""

    job: Job
    ranking: Ranking
    policy: str
    budget: Mapping[str, float]


class Shadow:
    """Reranks everything that answers were chosen from, in a thread of its own, and compares.

    A model of this process is asked while no request is under way, so an answer waits at most for the small call that
    has begun. What comes while too much waits is dropped and counted. Which requests are taken is drawn by a generator
    with a fixed seed.

    Args:
        options: what is shadowed and kept.
        model: the server's model.
        ranker: reads everything.
    """

    def __init__(self, options: ShadowOptions, model: str, ranker: BudgetedReranker) -> None:
        self._options = options
        self._model = model
        self._ranker = ranker
        self._draws = random.Random(0)  # noqa: S311 - a sample, no secret
        self._lock = threading.Lock()
        self._records: deque[ShadowRecord] = deque(maxlen=_REMEMBERED)
        self._spent = FREE
        self._outcomes = Counter(measured=0, failed=0, dropped=0, unwritten=0)
        self._queue: queue.Queue[Served | None] = queue.Queue(_WAITING)
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="ragtune-shadow", daemon=True)
        self._thread.start()

    def offer(self, served: Served) -> None:
        """Take the request, if it is its turn."""
        with self._lock:
            is_taken = self._draws.random() < self._options.share
        if not is_taken or self._is_closed.is_set():
            return
        try:
            self._queue.put_nowait(served)
        except queue.Full:
            self._count("dropped")

    def close(self) -> None:
        """End the thread; what waits is dropped, and a call that hangs is not waited for. Closing twice is harmless."""
        self._is_closed.set()
        with suppress(queue.Full):  # then the thread sees the event at the next one
            self._queue.put_nowait(None)
        self._thread.join(_LONGEST_CLOSE_S)

    @property
    def spent(self) -> CostObject:
        """What the model was charged for shadowing."""
        with self._lock:
            return self._spent

    def outcomes(self) -> dict[str, int]:
        """How many of the requests taken were measured, failed, were dropped, or could not be written down."""
        with self._lock:
            return dict(self._outcomes)

    def figures(self) -> dict[str, Interval]:
        """What the latest 10,000 records say together."""
        with self._lock:
            records = [*self._records]
        return figures(records)

    def _count(self, outcome: str) -> None:
        with self._lock:
            self._outcomes[outcome] += 1

    def _work(self) -> None:
        while (served := self._queue.get()) is not None and not self._is_closed.is_set():
            try:
                record = self._measured(served)
            except Exception as error:  # whatever a model raises must not end the thread
                sys.stderr.write(f"ragtune: a shadowed request failed: {error}\n")
                record = None
            if record is None:
                self._count("failed")
                continue
            with self._lock:
                self._outcomes["measured"] += 1
                self._records.append(record)
            self._write(record, served)

    def _measured(self, served: Served) -> ShadowRecord | None:
        """The record; None if a document could not be read, so that there is no full ranking to compare with."""
        # Those that the answer has read are read again, in as few calls as the ranker makes: so what everything costs
        # is measured too, which is more than a part's cost and the other's where a call has a price of its own.
        background = Background()
        with background.used():
            everything = self._ranker.rank(**served.job._asdict())
        took_ms = max(0.0, everything.cost.latency_ms - background.waited_ms)
        cost = everything.cost.model_copy(update={"latency_ms": took_ms})
        with self._lock:
            self._spent += cost
        gains = {one.index: one.reranker_score for one in everything if one.reranker_score is not None}
        order = [one.index for one in served.ranking]
        if len(gains) < len(order):
            return None
        full = [one.index for one in everything]
        return ShadowRecord(
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            model=self._model,
            policy=served.policy,
            budget=served.budget,
            documents=len(order),
            reranked=sum(one.reranked for one in served.ranking),
            overlap=overlap(order, full, DEPTH),
            rbo=rank_biased_overlap(order, full, DEPTH),
            quality=gain_kept(order, gains, DEPTH),
            spent=served.ranking.cost,
            full=cost,
            served_order=tuple(order[:DEPTH]),
            full_order=tuple(full[:DEPTH]),
        )

    def _write(self, record: ShadowRecord, served: Served) -> None:
        if self._options.file is None:
            return
        if self._options.with_texts:
            texts = served.job.documents
            shown = {index: texts[index] for index in sorted({*record.served_order, *record.full_order})}
            record = record.model_copy(update={"query": served.job.query, "texts": shown})
        try:
            _append(self._options.file, record.model_dump_json(exclude_none=True) + "\n")
        except OSError as error:
            sys.stderr.write(f"ragtune: {self._options.file}: a shadowed request was not written ({error})\n")
            self._count("unwritten")


def _append(file: Path, line: str) -> None:
    """Add a line to a file, which may be shared, and whose last line a crash or a full disk may have cut short."""
    with file.open("a+b", buffering=0) as kept:
        size = kept.seek(0, os.SEEK_END)
        kept.seek(max(0, size - 1))
        begin = b"" if kept.read(1) in (b"", b"\n") else b"\n"
        if kept.write(content := begin + line.encode()) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
