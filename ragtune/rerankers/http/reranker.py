"""Reranking by a server over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ragtune.core.arguments import check_choice, check_flag, check_number
from ragtune.core.errors import ConfigError, InputError, LLMError
from ragtune.core.pool.items import PoolItem, RerankBatch
from ragtune.core.request.clock import Clock, MonotonicClock
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import FREE, UNANSWERED, CostObject
from ragtune.core.units import DOCS_PER_SEARCH_UNIT, SEARCH_UNITS, search_units
from ragtune.data.caches.diskcache import AUTO
from ragtune.llm.credentials import host_of
from ragtune.llm.errors import ServiceError, no_scores
from ragtune.llm.transport import Deadline, Settings, Transport, map_all
from ragtune.llm.types import Price
from ragtune.rerankers._cached import CachedReranker, Key, Known, Pair, Pairs, shares
from ragtune.rerankers.http.dialects import DIALECTS, address_of, key_variable
from ragtune.rerankers.llm.base import together
from ragtune.rerankers.scale import ScaleWatch, calibrated, pair_scale

_SHOWN_PROBLEMS = 3


class HttpReranker(CachedReranker):
    """Asks a rerank server: Cohere, Jina, Voyage, vLLM, text-embeddings-inference, Infinity, or one that speaks alike.

    A failed call costs its documents, a batch without any score fails. Money is charged by call, as the server bills.
    """

    _cached: Mapping[str, tuple[str, str]] = {
        **CachedReranker._cached,
        "billed_tokens": ("token", "tokens"),
        "billed_docs": ("doc", "docs"),
    }

    def __init__(
        self,
        url: str | None = None,
        model: str | None = None,
        dialect: str = "cohere",
        api_key_env: str | None = None,
        scale: str | None = None,
        extra: Mapping[str, Any] | None = None,
        batch_size: int | None = None,
        concurrency: int = 4,
        usd_per_search_unit: float = 0.0,
        usd_per_1k_tokens: float = 0.0,
        max_length: int | None = None,
        timeout_s: float = 30.0,
        max_retries: int = 2,
        backoff_initial_s: float = 0.5,
        breaker_failures: int = 5,
        breaker_cooldown_s: float = 2.0,
        follow_redirects: bool = False,
        cache_dir: str | Path | None = AUTO,
        clock: Clock | None = None,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self.dialect = check_choice("reranker dialect", dialect, DIALECTS)
        self._speech = DIALECTS[dialect]
        size = self._speech.batch_size if batch_size is None else batch_size
        super().__init__(size, max_length, usd_per_1k_tokens, cache_dir)
        self.url = address_of(dialect, url)
        self.model = _checked_model(model, url, dialect)
        self.scale = pair_scale(scale or self._speech.scale)
        self._watch = ScaleWatch(self.scale)
        self.extra = dict(extra or {})
        self.usd_per_search_unit = check_number("reranker usd_per_search_unit", usd_per_search_unit, low=0.0)
        if self._is_billed_in_units:
            self.facts = replace(self.facts, unpriced=self.facts.unpriced - {SEARCH_UNITS.name})
        settings = Settings(
            who="reranker",
            base_url=self.url,
            default_base_url=None,
            api_key_env=key_variable(dialect, self.url) if api_key_env is None else api_key_env,
            timeout_s=timeout_s,
            max_retries=max_retries,
            backoff_initial_s=backoff_initial_s,
            concurrency=concurrency,
            breaker_failures=breaker_failures,
            breaker_cooldown_s=breaker_cooldown_s,
            follow_redirects=check_flag("reranker follow_redirects", follow_redirects),
        )
        self.concurrency = settings.concurrency
        self._clock = clock or MonotonicClock()
        self._transport = Transport(settings, self._clock, sleep)

    def prepare(self) -> None:
        """Import the library, open the caches and a connection, so that the first batch need not; nothing is sent."""
        self._open_caches()
        with suppress(InputError) if self._caches else nullcontext():
            self._transport.connect()

    def expected_cost(self, items: Sequence[PoolItem], context: RAGtuneContext) -> CostObject:
        """All documents, their calls with search units and tokens."""
        keys, lengths = self._keys(items, context).values(), self._lengths(items, context)
        return self._bill(items, dict(zip(keys, lengths, strict=True)), Known(), context)

    def rerank_many(self, batches: Sequence[RerankBatch]) -> list[Mapping[str, float] | Exception]:
        return [*map_all(lambda batch: self._rerank_together([batch])[0], batches, self.concurrency)]

    def close(self) -> None:
        self._transport.close()

    def give_up(self) -> None:
        """End the calls under way, which fail and are not sent again."""
        self._transport.give_up()

    @property
    def _is_billed_in_units(self) -> bool:
        return self.dialect == "cohere" or self.usd_per_search_unit > 0

    def _identity(self) -> str:
        asked = json.dumps(self._body("", []), sort_keys=True, ensure_ascii=False)
        return f"http {self.dialect} {self.url} {self.scale.value} {asked}"

    def _body(self, query: str, texts: Sequence[str]) -> dict[str, Any]:
        return self._speech.body(query, texts, self.model) | self.extra

    def _calls(self, pairs: Pairs) -> list[Pairs]:
        """The pairs in calls of as many documents and tokens as the server takes."""
        most = self._speech.call_tokens
        if most is None:
            return _in_parts(pairs, self.batch_size)
        calls: list[Pairs] = []
        room = 0
        part: dict[Key, int] = {}
        for key, tokens in pairs.items():  # with those of the query, as Voyage counts them
            if tokens > room or len(part) >= self.batch_size:
                room, part = most, {}
                calls.append(part)
            part[key] = tokens
            room -= tokens
        return calls

    def _score_unknown(self, unknown: Mapping[Key, Pair], known: Known) -> None:
        """Score the pairs of one request, several calls at once; an error where none has a score."""
        context = next(iter(unknown.values())).context
        with context.tracker.clock.paused():
            self._transport.connect()
        calls = self._calls({key: pair.tokens for key, pair in unknown.items()})
        deadline = Deadline(self._clock, context.time_left_ms)
        reasons: list[LLMError | str] = []
        ask = partial(self._call, unknown=unknown, deadline=deadline)
        for call, reply in self._answered(calls, ask):
            if isinstance(reply, LLMError):
                self._note_unanswered(getattr(reply, "unanswered", 0), call, context)
                known.failed.append(self._cost_of(reply))
                kind = reply.kind if isinstance(reply, ServiceError) else "useless"
                doc_ids = [unknown[key].item.doc_id for key in call]
                context.trace.add("reranker", "failed_call", doc_ids=doc_ids, kind=kind, error=str(reply))
                reasons.append(reply)
                continue
            fresh, problems = reply
            for name in ("scores", "times", "billed_tokens", "billed_docs"):
                getattr(known, name).update(getattr(fresh, name))
            if problems:
                shown, doc_ids = problems[:_SHOWN_PROBLEMS], [unknown[key].item.doc_id for key in call]
                context.trace.add("reranker", "bad_results", doc_ids=doc_ids, count=len(problems), first=shown)
                reasons += shown
        if not known.scores:
            why = reasons[0] if reasons else "its results are empty"
            message = f"{host_of(self.url)} scored none of {len(unknown)} documents; the first reason: {why}"
            raise no_scores(message, reasons)

    def _answered(
        self, calls: list[Pairs], ask: Callable[[Pairs], tuple[Known, list[str]]]
    ) -> Iterator[tuple[Pairs, tuple[Known, list[str]] | LLMError]]:
        """The reply to each call; one that the server finds too large is split, and so are all later ones."""
        while calls:
            replies = map_all(ask, calls, self.concurrency)
            large: list[Pairs] = []
            for call, reply in zip(calls, replies, strict=True):
                if len(call) > 1 and isinstance(reply, ServiceError) and reply.kind == "oversized":
                    self.batch_size = min(self.batch_size, (len(call) + 1) // 2)
                    large.append(call)
                else:
                    yield call, reply
            calls = [part for call in large for part in _in_parts(call, (len(call) + 1) // 2)]

    def _call(self, pairs: Pairs, unknown: Mapping[Key, Pair], deadline: Deadline) -> tuple[Known, list[str]]:
        context = next(iter(unknown.values())).context
        body = self._body(context.query, [unknown[key].text for key in pairs])
        reply = self._transport.post("", body, lambda got: self._speech.read(got, len(pairs)), deadline)
        self._note_unanswered(reply.unanswered, pairs, context)
        keys, fresh, problems = list(pairs), Known(), list(reply.body.problems)
        self._watch.see(reply.body.scores.values(), context)
        for index, raw in reply.body.scores.items():
            score = calibrated(raw, self.scale)
            if score is None:
                problems.append(f"score {raw!r}, which scale={self.scale.value!r} does not allow")
            else:
                fresh.scores[keys[index]] = score
        weights = {key: max(1, tokens) for key, tokens in pairs.items()}
        fresh.times = shares(reply.latency_ms, weights)
        tokens, units, wasted = reply.body.tokens, reply.body.search_units, reply.wasted.prompt_tokens or 0
        if tokens is not None or wasted:
            billed = wasted + (sum(weights.values()) if tokens is None else tokens)
            fresh.billed_tokens = shares(float(billed), weights)
        if units is not None and units != search_units(len(pairs)):
            fresh.billed_docs = dict.fromkeys(pairs, units * DOCS_PER_SEARCH_UNIT / len(pairs))
        self._keep(fresh)
        return fresh, problems

    def _note_unanswered(self, attempts: int, pairs: Pairs, context: RAGtuneContext) -> None:
        """Trace what the server may bill for attempts whose answer was lost."""
        if attempts:
            cost = self._call_cost(pairs, Known()).model_copy(update={"latency_ms": 0.0})
            context.trace.add("reranker", UNANSWERED, cost=sum([cost] * attempts, FREE).model_dump())

    def _bill(self, items: Sequence[PoolItem], pairs: Pairs, known: Known, context: RAGtuneContext) -> CostObject:
        """The cost of the pairs' calls without a cache, and of failed calls."""
        calls = [self._call_cost(call, known) for call in self._calls(pairs)]
        return together([*calls, *known.failed], self.concurrency).model_copy(update={"docs": len(items)})

    def _call_cost(self, pairs: Pairs, known: Known) -> CostObject:
        billed = {key: known.billed_tokens[key] for key in pairs if key in known.billed_tokens}
        tokens = sum(pairs.values()) - sum(pairs[key] for key in billed) + round(sum(billed.values()))
        docs = sum(known.billed_docs.get(key, 1.0) for key in pairs) if known.billed_docs else len(pairs)
        units = search_units(docs)
        usd = units * self.usd_per_search_unit + self._token_price.usd(tokens, 0)
        ms = self._made_ms(pairs, known)
        counted_units = units if self._is_billed_in_units else 0
        return CostObject(tokens=tokens, calls=1, latency_ms=ms, usd=usd, search_units=counted_units)

    def _cost_of(self, error: LLMError) -> CostObject:
        if not isinstance(error, ServiceError):
            return CostObject()
        error.usd = self._token_price.usd(error.prompt_tokens, error.completion_tokens)
        return error.cost

    @property
    def _token_price(self) -> Price:
        return Price(prompt=self.usd_per_1k_tokens)


def _in_parts(pairs: Pairs, size: int) -> list[Pairs]:
    if 0 < len(pairs) <= size:
        return [pairs]
    entries = list(pairs.items())
    return [dict(entries[at : at + size]) for at in range(0, len(entries), size)]


def _checked_model(model: str | None, url: str | None, dialect: str) -> str | None:
    if model is None and url is None:
        raise ConfigError(f"reranker model=None: allowed is the name of a model of {DIALECTS[dialect].service}")
    if model is not None and (not isinstance(model, str) or not model.strip()):
        raise ConfigError(f"reranker model={model!r}: allowed is the name of a model, or None")
    return model
