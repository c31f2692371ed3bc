"""What a server did in the last hour and day, minute by minute, as a page at ``/status`` and as JSON beside it."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

from ragtune.core.types import FREE, STRATEGY_CLOSED

if TYPE_CHECKING:
    from ragtune.facade.ranking import Ranking

PAGE, DATA = "/status", "/status.json"

HOUR, DAY = 60, 24 * 60

_FIGURES = (
    *("requests", "refused", "errors", "documents", "read", "saved_documents", "tokens", "saved_tokens"),
    *("usd", "saved_usd", "saved_s", "fallbacks", "with_deadline", "deadline_misses", "doubts"),
    *("cache_hits", "cache_misses"),
)
_STEP = 1.1  # from one bucket of answer times to the next, which begin at a millisecond
_SHOWN_DOUBTS = 5


class Recent:
    """Sums of figures by minute, of the last day; thread-safe. ``clock`` returns seconds since 1970."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._minutes: deque[tuple[int, Counter[Any]]] = deque(maxlen=DAY)
        self.doubts: deque[tuple[str, str]] = deque(maxlen=_SHOWN_DOUBTS)
        self.started = clock()

    def add(self, figures: Mapping[Any, float]) -> None:
        """Add amounts to the current minute."""
        minute = int(self._clock() // 60)
        with self._lock:
            if not self._minutes or self._minutes[-1][0] < minute:
                self._minutes.append((minute, Counter()))
            self._minutes[-1][1].update(figures)

    def answered(self, status: int, seconds: float) -> None:
        """Count an answer; its time goes into a bucket whose number is its key."""
        kind = "requests" if status < 400 else "refused" if status < 500 else "errors"
        bucket = max(0, math.ceil(math.log(max(seconds, 0.001) / 0.001, _STEP)))
        self.add({kind: 1, bucket: 1} if kind == "requests" else {kind: 1})

    def ranked(self, ranking: Ranking) -> None:
        """Count what a request spent, and what it saved unless its model failed."""
        read, fails = sum(one.reranked for one in ranking), is_fallback(ranking)
        spent, saved = ranking.cost, FREE if fails else ranking.saved
        self.add(
            {
                "documents": len(ranking),
                "read": read,
                "saved_documents": 0 if fails else len(ranking) - read - len(ranking.failures),
                "tokens": spent.tokens,
                "saved_tokens": saved.tokens,
                "usd": spent.usd,
                "saved_usd": saved.usd,
                "saved_s": saved.latency_ms / 1000.0,
                "fallbacks": fails,
            }
        )

    def doubt(self, words: str) -> None:
        """Count a warning about the model, and remember the latest five."""
        self.add({"doubts": 1})
        self.doubts.append((_at(self._clock()), words))

    def over(self, minutes: int) -> Counter[Any]:
        """The sums of the last minutes, with the one under way."""
        first = int(self._clock() // 60) - minutes + 1
        total: Counter[Any] = Counter()
        with self._lock:
            for minute, figures in self._minutes:
                if minute >= first:
                    total.update(figures)
        return total

    def each_minute(self, name: str, minutes: int = HOUR) -> list[float]:
        """One figure in each of the last minutes, oldest first."""
        now = int(self._clock() // 60)
        with self._lock:
            known = {minute: figures[name] for minute, figures in self._minutes}
        return [known.get(minute, 0) for minute in range(now - minutes + 1, now + 1)]


def is_fallback(ranking: Ranking) -> bool:
    """Whether the order is the first stage's because the model failed."""
    has_failed = ranking.failures or ranking.batches.failed
    is_closed = ranking.stop is not None and ranking.stop.reason == STRATEGY_CLOSED
    return bool(len(ranking) and (has_failed or is_closed) and not any(one.reranked for one in ranking))


def status_of(recent: Recent, model: str, is_failing: bool) -> dict[str, Any]:
    """All of the page, as JSON: figures of the last ``hour`` and ``day``, and requests of each minute of the hour."""
    return {
        "model": model,
        "is_failing": is_failing,
        "since": _at(recent.started),
        "now": _at(recent._clock()),
        "hour": _figures(recent.over(HOUR)),
        "day": _figures(recent.over(DAY)),
        "requests_by_minute": recent.each_minute("requests"),
        "fallbacks_by_minute": recent.each_minute("fallbacks"),
        "latest_doubts": [{"at": at, "doubt": words} for at, words in recent.doubts],
    }


def page_of(status: Mapping[str, Any]) -> str:
    """The page, which loads itself again every ten seconds and nothing else."""
    hour, day = status["hour"], status["day"]
    requests, fallbacks = status["requests_by_minute"], status["fallbacks_by_minute"]
    tallest = max(*requests, *fallbacks, 1)
    rows = "\n".join(
        f"<tr><th scope=row>{name}</th><td>{show(hour)}</td><td>{show(day)}</td></tr>" for name, show in _rows(day)
    )
    doubts = "\n".join(f"<li><b>{one['at']}</b> {escape(one['doubt'])}</li>" for one in status["latest_doubts"])
    state = "The model fails: answers are in the first stage's order." if status["is_failing"] else "The model answers."
    template = Template(files("ragtune.services").joinpath("status.html").read_text(encoding="utf-8"))
    return template.substitute(
        model=escape(status["model"]),
        state=state,
        kind="bad" if status["is_failing"] else "good",
        since=status["since"],
        now=status["now"],
        rows=rows,
        bars="".join(_bars(requests, tallest)) + f"<g class=bad>{''.join(_bars(fallbacks, tallest))}</g>",
        most=f"{max(requests):,.0f}",
        doubts=f"<h2>Latest doubts</h2><ul>{doubts}</ul>" if doubts else "",
    )


def _figures(total: Counter[Any]) -> dict[str, Any]:
    buckets = sorted((key, count) for key, count in total.items() if isinstance(key, int))
    return {name: total[name] for name in _FIGURES} | {
        "p50_ms": _quantile(buckets, 0.5),
        "p99_ms": _quantile(buckets, 0.99),
    }


def _quantile(buckets: list[tuple[int, int]], share: float) -> float | None:
    """The upper end, in milliseconds, of the bucket in which that share of the answers is reached."""
    left = share * sum(count for _, count in buckets)
    for bucket, count in buckets:
        left -= count
        if left <= 0:
            return round(float(_STEP**bucket), 1)
    return None


def _rows(day: Mapping[str, Any]) -> Iterator[tuple[str, Callable[[Mapping[str, Any]], str]]]:
    """Names of rows, and what shows their figure; those of features that are not in use are left out."""
    yield "Requests answered", lambda f: f"{f['requests']:,}"
    yield "Answer time, median", lambda f: _ms(f["p50_ms"])
    yield "Answer time, 99%", lambda f: _ms(f["p99_ms"])
    yield "Documents received", lambda f: _number(f["documents"])
    yield "Documents saved", lambda f: _share(f["saved_documents"], f["documents"])
    yield "Tokens saved", lambda f: _share(f["saved_tokens"], f["saved_tokens"] + f["tokens"])
    if day["saved_s"]:
        yield "Model time saved", lambda f: _duration(f["saved_s"])
    if day["usd"] or day["saved_usd"]:
        yield "Dollars saved", lambda f: f"${f['saved_usd']:,.2f} of ${f['usd'] + f['saved_usd']:,.2f}"
    if day["cache_hits"] or day["cache_misses"]:
        yield "Scores from the cache", lambda f: _share(f["cache_hits"], f["cache_hits"] + f["cache_misses"])
    yield "Fallbacks to the first stage", lambda f: _alarm(f["fallbacks"], f["requests"])
    yield "Deadlines missed", lambda f: _alarm(f["deadline_misses"], f["with_deadline"])
    yield "Requests refused (4xx)", lambda f: f"{f['refused']:,}"
    yield "Errors (5xx)", lambda f: _alarm(f["errors"], f["requests"] + f["errors"])
    yield "Doubts about the model", lambda f: _alarm(f["doubts"])


def _ms(amount: float | None) -> str:
    return "-" if amount is None else _duration(amount / 1000.0)


def _duration(seconds: float) -> str:
    if seconds < 1.0:
        return f"{1000.0 * seconds:.0f} ms"
    if seconds < 120.0:
        return f"{seconds:.1f} s"
    return f"{seconds / 60.0:,.0f} min" if seconds < 7200.0 else f"{seconds / 3600.0:,.1f} h"


def _share(part: float, whole: float) -> str:
    return f"{_number(part)} <small>({part / whole:.0%})</small>" if whole else "-"


def _number(count: float) -> str:
    return f"{count:,.0f}" if count < 1e6 else f"{count / 1e6:,.1f} M"


def _alarm(count: float, of: float | None = None) -> str:
    shown = f"{count:,}" if of is None or not count else f"{count:,} <small>of {of:,}</small>"
    return f"<b>{shown}</b>" if count else shown


def _bars(counts: list[float], tallest: float) -> Iterator[str]:
    for i, count in enumerate(counts):
        height = 40.0 * count / tallest
        yield f'<rect x="{10 * i + 1}" y="{40 - height:.1f}" width="8" height="{height:.1f}"/>'


def _at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
