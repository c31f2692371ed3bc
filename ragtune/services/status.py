"""What a server did in the last hour and day, minute by minute: JSON, and the page that shows it."""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import accumulate
from typing import Any

from ragtune.core.types import FREE, STRATEGY_CLOSED
from ragtune.facade.ranking import Ranking
from ragtune.services.page import html_page

PATH, DATA_PATH = "/status", "/status.json"

_HOUR, _DAY = 60, 24 * 60
_STEP = 1.1  # from one bucket of answer times to the next; the first one ends at a millisecond
_FIGURES = (
    *("requests", "refused", "errors", "documents", "read", "saved_documents", "tokens", "saved_tokens"),
    *("usd", "saved_usd", "saved_s", "fallbacks", "with_deadline", "deadline_misses", "doubts"),
    *("cache_hits", "cache_misses"),
)
_ROWS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("Requests answered", "requests", "{:,.0f}", ()),
    ("Answer time, median", "p50_ms", "{:,.0f} ms", ()),
    ("Answer time, 99%", "p99_ms", "{:,.0f} ms", ()),
    ("Documents received", "documents", "{:,.0f}", ()),
    ("Documents saved", "saved_documents", "{:,.0f}", ("documents",)),
    ("Tokens saved", "saved_tokens", "{:,.0f}", ("saved_tokens", "tokens")),
    ("Model time saved", "saved_s", "{:,.1f} s", ()),
    ("Dollars saved", "saved_usd", "${:,.2f}", ("saved_usd", "usd")),
    ("Scores from the cache", "cache_hits", "{:,.0f}", ("cache_hits", "cache_misses")),
    ("Fallbacks to the first stage", "fallbacks", "{:,.0f}", ("requests",)),
    ("Deadlines missed", "deadline_misses", "{:,.0f}", ("with_deadline",)),
    ("Requests refused (4xx)", "refused", "{:,.0f}", ()),
    ("Errors (5xx)", "errors", "{:,.0f}", ()),
    ("Doubts about the model", "doubts", "{:,.0f}", ()),
)
"""Rows of the page: name, figure and its form, and the figures that it is a share of; without these no row."""

_BAD = {"fallbacks", "deadline_misses", "errors", "doubts"}


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


def page(status: Mapping[str, Any]) -> str:
    """Return the figures of :meth:`Recent.status` as a page, which is new every ten seconds."""
    model, hour, day = escape(status["model"]), status["hour"], status["day"]
    requests, fallbacks = status["by_minute"]["requests"], status["by_minute"]["fallbacks"]
    tallest = max(*requests, *fallbacks)
    rows = "".join(
        f"<tr><th>{words}</th>{_cell(hour, name, form, whole)}{_cell(day, name, form, whole)}</tr>\n"
        for words, name, form, whole in _ROWS
        if not whole or any(day[part] for part in whole)
    )
    state = '<p class="good"><b>The model answers.</b></p>'
    if status["is_failing"]:
        state = '<p class="bad"><b>The model fails: answers are in the first stage\'s order.</b></p>'
    doubts = "".join(f"<li>{one['at']}: {escape(one['doubt'])}</li>" for one in status["latest_doubts"])
    body = f"""<h1>{model}</h1>
{state}
<p class="soft">Reranked by RAGtune. Figures since {status["since"]}, as of {status["now"]}.</p>
<h2>Requests a minute, last hour</h2>
<svg viewBox="0 0 600 40" preserveAspectRatio="none">
{_bars(requests, tallest, "good")}{_bars(fallbacks, tallest, "bad")}
</svg>
<p class="soft">From an hour ago until now, at most {tallest}; fallbacks in red.</p>
<h2>Last hour and last day</h2>
<table><tr><th></th><th>last hour</th><th>last day</th></tr>
{rows}</table>
{f"<h2>Latest doubts about the model</h2><ul>{doubts}</ul>" if doubts else ""}
<p class="soft">The same as <a href="status.json">JSON</a>; for Prometheus at <a href="metrics">/metrics</a>; the
<a href="docs">API</a>. <small>New figures every ten seconds.</small></p>"""
    return html_page(f"RAGtune: {model}", body, refresh_s=10)


def _cell(figures: Mapping[str, Any], name: str, form: str, whole: Sequence[str]) -> str:
    value, of = figures[name], sum(figures[part] for part in whole)
    shown = "-" if value is None else form.format(value)
    share = f" <small>({100 * value / of:.3g}%)</small>" if of else ""
    return f"<td{' class=bad' if value and name in _BAD else ''}>{shown}{share}</td>"


def _bars(counts: Sequence[int], tallest: int, kind: str) -> str:
    heights = ((10 * at + 1, 40.0 * count / (tallest or 1)) for at, count in enumerate(counts))
    return "".join(f'<rect class="{kind}" x="{x}" y="{40 - h:.1f}" width="8" height="{h:.1f}"/>' for x, h in heights)


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
