"""What a server did in the last hour and day, minute by minute: JSON, and the page that shows it."""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.resources import files
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ragtune.core.types import FREE, STRATEGY_CLOSED

if TYPE_CHECKING:
    from ragtune.facade.ranking import Ranking

PATH, DATA_PATH = "/status", "/status.json"

_HOUR, _DAY = 60, 24 * 60
_STEP = 1.1  # from one bucket of answer times to the next; the first one ends at a millisecond
_FIGURES = (
    *("requests", "refused", "errors", "documents", "read", "saved_documents", "tokens", "saved_tokens"),
    *("usd", "saved_usd", "saved_s", "fallbacks", "with_deadline", "deadline_misses", "doubts"),
    *("cache_hits", "cache_misses"),
)


class Recent:
    """Sums of figures of each minute of the last day; thread-safe. ``clock`` returns seconds since 1970."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._started = clock()
        self._lock = threading.Lock()
        self._minutes: deque[tuple[int, Counter[Any]]] = deque(maxlen=_DAY)
        self._doubts: deque[dict[str, str]] = deque(maxlen=5)

    def add(self, figures: Mapping[Any, float]) -> None:
        """Add amounts to the current minute."""
        minute = int(self._clock() // 60)
        with self._lock:
            if not self._minutes or self._minutes[-1][0] < minute:
                self._minutes.append((minute, Counter()))
            self._minutes[-1][1].update(figures)

    def answered(self, status: int, seconds: float) -> None:
        """Count an answer; its time goes into a bucket, whose number is its key."""
        kind = "requests" if status < 400 else "refused" if status < 500 else "errors"
        bucket = math.ceil(math.log(max(seconds, 0.001) / 0.001, _STEP))
        self.add({kind: 1, bucket: 1} if kind == "requests" else {kind: 1})

    def ranked(self, ranking: Ranking) -> None:
        """Count what a request spent, and what it saved unless its model failed."""
        read, fails = sum(one.reranked for one in ranking), is_fallback(ranking)
        saved = FREE if fails else ranking.saved
        amounts = {"tokens": ranking.cost.tokens, "usd": ranking.cost.usd, "saved_s": saved.latency_ms / 1000.0}
        amounts |= {"saved_tokens": saved.tokens, "saved_usd": saved.usd, "fallbacks": fails}
        left = 0 if fails else len(ranking) - read - len(ranking.failures)
        self.add({**amounts, "documents": len(ranking), "read": read, "saved_documents": left})

    def doubted(self, words: str) -> None:
        """Count a warning about the model, and remember the latest five."""
        self.add({"doubts": 1})
        self._doubts.append({"at": _at(self._clock()), "doubt": words})

    def status(self, model: str, is_failing: bool) -> dict[str, Any]:
        """Return figures of the last ``hour`` and ``day``, and some of each minute of the hour, oldest first."""
        now = int(self._clock() // 60)
        with self._lock:
            minutes = {minute: figures.copy() for minute, figures in self._minutes}
        hour = [minutes.get(minute, Counter()) for minute in range(now - _HOUR + 1, now + 1)]
        return {
            "model": model,
            "is_failing": is_failing,
            "since": _at(self._started),
            "now": _at(self._clock()),
            "hour": _summary(hour),
            "day": _summary([figures for minute, figures in minutes.items() if minute > now - _DAY]),
            "by_minute": {name: [each[name] for each in hour] for name in ("requests", "fallbacks")},
            "latest_doubts": [*self._doubts],
        }


def is_fallback(ranking: Ranking) -> bool:
    """Whether the order is the first stage's because no model answered, in time or at all, or was allowed to."""
    stop = ranking.stop
    is_without = stop is not None and (stop.reason == STRATEGY_CLOSED or stop.source == "server")
    return bool(ranking.batches.failed or is_without) and not any(one.reranked for one in ranking)


def page() -> str:
    """Return the page, which asks for the JSON every ten seconds and for nothing else."""
    return files("ragtune.services").joinpath("status.html").read_text(encoding="utf-8")


def _summary(minutes: list[Counter[Any]]) -> dict[str, Any]:
    total: Counter[Any] = Counter()
    for figures in minutes:
        total.update(figures)
    times = sorted(bucket for bucket in total if isinstance(bucket, int))
    sums = list(accumulate(total[bucket] for bucket in times))

    def quantile(share: float) -> float | None:  # the upper end of its bucket, in milliseconds
        return round(float(_STEP ** times[bisect_left(sums, share * sums[-1])]), 1) if sums else None

    return {name: total[name] for name in _FIGURES} | {"p50_ms": quantile(0.5), "p99_ms": quantile(0.99)}


def _at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
