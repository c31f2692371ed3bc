"""Figures of reranking, for Prometheus at ``/metrics``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ragtune.core.errors import MissingExtraError
from ragtune.services.chain import ServedRanking
from ragtune.services.dialects.table import BY_PATH
from ragtune.services.shadow import FIGURES, Shadow
from ragtune.services.status import Recent, is_fallback

try:
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from starlette.responses import Response
except ImportError as error:
    raise MissingExtraError("the server", "services") from error

PATH = "/metrics"

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_BATCHES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """The figures of one server, in a registry of its own; thread-safe."""

    def __init__(self, is_failing: Callable[[], bool]) -> None:
        self.registry = CollectorRegistry()
        self.recent = Recent()

        def counter(name: str, meaning: str, *labels: str) -> Counter:
            return Counter(f"ragtune_rerank_{name}", meaning, labels, registry=self.registry)

        self._requests = counter("requests", "Requests of the rerank API.", "path", "status")
        self._seconds = Histogram(
            "ragtune_rerank_seconds",
            "From a request's first byte to its answer's end.",
            registry=self.registry,
            buckets=_SECONDS,
        )
        self._docs = counter("documents", "Documents, by whether the model scored, saved or failed them.", "outcome")
        self._calls = counter("calls", "Calls of the model that were charged.")
        self._search_units = counter("search_units", "Search units of answers, as they are billed.")
        self._possible = counter("possible_search_units", "Search units of calls without a whole answer.")
        self._hops = counter("hops", "What models did for requests.", "model", "outcome")
        self._tokens = counter("tokens", "Tokens that the model was charged.")
        self._usd = counter("usd", "Dollars that were charged.")
        self._saved_tokens = counter("saved_tokens", "Tokens that reranking everything would have cost on top.")
        self._saved_usd = counter("saved_usd", "Dollars that reranking everything would have cost on top.")
        self._stops = counter("stops", "Rankings, by why no more was scored.", "reason")
        self._errors = counter("upstream_errors", "Batches sent that brought no score.")
        self._fallbacks = counter("fallbacks", "Answers in the first stage's order, since the model failed.")
        self._late = counter("deadlines", "Requests with a limit in ms, by whether it was met.", "outcome")
        self._doubts = counter("doubts", "Warnings that sources seem to know better than the model.")
        self._cached = counter("cache_lookups", "Scores asked of the cache.", "outcome")
        is_open = Gauge(
            "ragtune_rerank_breaker_open", "1 while a model that failed is not asked, else 0.", registry=self.registry
        )
        is_open.set_function(lambda: float(is_failing()))
        self.shared = Histogram(
            "ragtune_rerank_shared_batches",
            "Batches of different requests in one call of the model.",
            registry=self.registry,
            buckets=_BATCHES,
        )

    def watch_shadow(self, shadow: Shadow) -> None:
        """Ask this, whenever the figures are read, what shadowed requests came to."""
        self.registry.register(_ShadowFigures(shadow))

    def ranked(self, ranking: ServedRanking) -> None:
        for hop in ranking.hops:
            self._hops.labels(hop.model, hop.outcome).inc()
        self._possible.inc(ranking.possible.search_units)
        scored = sum(one.reranked for one in ranking)
        failed = len(ranking.failures)
        for outcome, count in (("scored", scored), ("failed", failed), ("saved", len(ranking) - scored - failed)):
            self._docs.labels(outcome).inc(count)
        self._calls.inc(ranking.cost.calls)
        self._search_units.inc(ranking.cost.search_units)
        self._tokens.inc(ranking.cost.tokens)
        self._usd.inc(ranking.cost.usd)
        self._saved_tokens.inc(ranking.saved.tokens)
        self._saved_usd.inc(ranking.saved.usd)
        self._errors.inc(ranking.batches.failed - ranking.batches.not_asked)
        self._stops.labels("" if ranking.stop is None else ranking.stop.reason).inc()
        self._fallbacks.inc(is_fallback(ranking))
        self.recent.ranked(ranking)

    def timed(self, ms: float, limit_ms: float) -> None:
        """Count a request with a limit on time, and the milliseconds from its arrival to its ranking."""
        is_late = ms > limit_ms
        self._late.labels("missed" if is_late else "met").inc()
        self.recent.add({"with_deadline": 1, "deadline_misses": is_late})

    def looked_up(self, hits: int, misses: int) -> None:
        """Count scores that the cache has and those that it lacks."""
        self._cached.labels("hit").inc(hits)
        self._cached.labels("miss").inc(misses)
        self.recent.add({"cache_hits": hits, "cache_misses": misses})

    def doubted(self, words: str) -> None:
        """Count a warning about the model."""
        self._doubts.inc()
        self.recent.doubted(words)

    def answered(self, path: str, status: int, seconds: float) -> None:
        """A request has its answer, whatever that is; those of the rerank API count."""
        if path in BY_PATH:
            self._requests.labels(path, str(status)).inc()
            self._seconds.observe(seconds)
            self.recent.answered(status, seconds)

    async def page(self) -> Any:
        return Response(generate_latest(self.registry), media_type=CONTENT_TYPE_LATEST)


class _ShadowFigures:
    def __init__(self, shadow: Shadow) -> None:
        self._shadow = shadow

    def collect(self) -> Iterator[Metric]:
        name = "ragtune_rerank_shadow"
        taken = CounterMetricFamily(
            name, "Requests that were taken to be reranked in full as well.", labels=["outcome"]
        )
        for outcome, count in self._shadow.outcomes.items():
            taken.add_metric([outcome], count)
        yield taken
        spent = self._shadow.spent
        yield CounterMetricFamily(f"{name}_tokens", "Tokens that the model was charged for it.", value=spent.tokens)
        yield CounterMetricFamily(f"{name}_usd", "Dollars that were charged for it.", value=spent.usd)
        for measure, (mean, low, high) in self._shadow.figures().items():
            gauge = GaugeMetricFamily(f"{name}_{measure}", f"{FIGURES[measure].capitalize()}.", labels=["figure"])
            for figure, value in (("mean", mean), ("low", low), ("high", high)):
                gauge.add_metric([figure], value)
            yield gauge
