"""What the rerank API works on: a model and a policy, with a budget behind every request."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from ragtune.canonical.permit import current
from ragtune.canonical.service import LimitExceededError
from ragtune.core.batches.failures import FailurePolicy
from ragtune.core.errors import InputError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.tokens import token_spans
from ragtune.core.units import TIME
from ragtune.facade.defaults import TRUST
from ragtune.services import rerank_payloads as p
from ragtune.services.batching import SharedCalls
from ragtune.services.metrics import Metrics, span
from ragtune.services.shadow import Shadow, ShadowOptions
from ragtune.services.turns import ServedReranker, Turns

if TYPE_CHECKING:
    from ragtune.facade.policies import Policy
    from ragtune.facade.ranking import Ranking


class RerankServer:
    """Ranks what requests bring, within the server's budget unless they name their own, and never above the caps.

    Without a budget, everything is reranked in one call, or compared until nothing is left to ask. ``patience_ms`` is
    of a model that requests share; None has their own threads call it. Its calls are given up after ``time_s``.
    """

    def __init__(
        self,
        reranker: BaseReranker,
        model: str,
        *,
        budget: Mapping[str, float | None] | None = None,
        caps: Mapping[str, float | None] | None = None,
        policy: str | Policy = "uncertainty",
        batch_size: int | None = None,
        trust: float | Literal["auto"] = TRUST,
        max_documents: int = 1000,
        patience_ms: float | None = None,
        time_s: float | None = None,
        shadow: ShadowOptions | None = None,
        failures: FailurePolicy | None = None,
    ) -> None:
        from ragtune.facade.doubts import Doubts  # costs a server without a model half a second
        from ragtune.facade.policies import policy_named
        from ragtune.facade.reranker import BudgetedReranker

        doubts = Doubts(_log, "--trust (0 follows the sources, 1 the model)")
        parts = policy_named(policy, batch_size, trust=doubts.dial(trust)) if isinstance(policy, str) else policy
        self.model = model
        self._ends_by_itself = parts.compares
        self.max_documents = max_documents
        self.max_length: int = getattr(reranker, "max_length", None) or 512
        self._time_ms = None if time_s is None else 1000.0 * time_s
        self._defaults = _set(budget or {})
        self._caps = _set(caps or {})
        self.metrics = Metrics()
        self._turns = Turns()
        self._shadow: Shadow | None = None
        self._everything = {"calls": sys.maxsize} if parts.compares else {"docs": max_documents}
        limits: dict[str, Any] = self._capped(self._defaults) or self._everything
        self._shared = None if patience_ms is None else SharedCalls(reranker, patience_ms, observe=self.metrics.called)
        self._asked = asked = ServedReranker(self._shared or reranker, self._turns)
        try:
            self._choosy = BudgetedReranker(asked, policy=parts, doubts=doubts, failures=failures, **limits)
            self._full = BudgetedReranker(asked, policy="fixed_depth", docs=max_documents, failures=failures)
            for ranker in (self._choosy, self._full):
                ranker.warm_up()
            if shadow is not None:
                name = policy if isinstance(policy, str) else type(policy.estimator).__name__
                self._shadow = Shadow(shadow, model, name, self._full)
                self.metrics.watch_shadow(self._shadow)
        except BaseException:
            self.close()
            raise
        self.metrics.watch(lambda: any(ranker.closed is not None for ranker in (self._choosy, self._full)))

    def stop(self) -> None:
        """Put no further batch to the model: requests under way are answered with what is there."""
        self._asked.stop()
        if self._shared is not None:
            self._shared.stop()

    def close(self) -> None:
        """End the threads that call the model, once their calls are over."""
        self.stop()
        if self._shadow is not None:
            self._shadow.close()
        if self._shared is not None:
            self._shared.close()

    def __enter__(self) -> RerankServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rank(self, request: p.RerankQuery) -> Ranking:
        if len(request.documents) > self.max_documents:
            raise LimitExceededError(
                f"/documents: {len(request.documents)} documents, allowed are at most {self.max_documents}"
            )
        from ragtune.facade.reranker import Job

        texts = [_text(i, document, request) for i, document in enumerate(request.documents)]
        job = Job(request.query, texts, request.scores, request.vectors, request.signals, request.query_vector)
        named = {} if request.budget is None else request.budget.model_dump(exclude_unset=True)
        limits = self._capped(_set(self._defaults | named))
        ranker = self._choosy if limits or self._ends_by_itself else self._full
        with self._traced(len(texts)) as attributes, self._in_time(limits) as timed:
            ranking = ranker.rank(**job._asdict(), budget=timed or self._everything)
            self.metrics.ranked(ranking)
            attributes.update(_attributes(ranking))
        if self._shadow is not None and limits and texts and not self._is_given_up(ranking, limits, timed):
            self._shadow.offer(job, ranking, limits)
        return ranking

    def _is_given_up(self, ranking: Ranking, limits: Mapping[str, float], timed: Mapping[str, float]) -> bool:
        """Whether the answer was cut short by anything but the request's budget; ``timed`` has the time it had."""
        if current().is_withdrawn or self._asked.is_stopped:
            return True
        if self._time_ms is None or limits.get("ms", math.inf) < self._time_ms:
            return False
        stop = {} if ranking.stop is None else ranking.stop.details
        return ranking.cost.latency_ms >= timed["ms"] or "elapsed" in stop or stop.get("limit") == TIME.name

    def _capped(self, limits: dict[str, float]) -> dict[str, float]:
        return limits | {unit: min(cap, limits.get(unit, cap)) for unit, cap in self._caps.items()}

    @contextmanager
    def _in_time(self, limits: dict[str, float]) -> Iterator[dict[str, float]]:
        """The limits without the time that the request has waited already and that its answer will take."""
        if self._time_ms is not None:
            limits = limits | {"ms": min(self._time_ms, limits.get("ms", self._time_ms))}
        with self._turns.within(limits.get("ms")) as left_ms:
            yield limits if left_ms is None else limits | {"ms": left_ms}

    @contextmanager
    def _traced(self, documents: int) -> Iterator[dict[str, Any]]:
        known = {"ragtune.model": self.model, "ragtune.documents": documents}
        expected = nullcontext() if self._shared is None else self._shared.request()
        with span("rerank", known) as attributes, expected:
            yield attributes


def _set(limits: Mapping[str, float | None]) -> dict[str, float]:
    return {unit: limit for unit, limit in limits.items() if limit is not None}


def _log(doubt: str) -> None:
    sys.stderr.write(f"ragtune: warning: {doubt}\n")


def _text(i: int, document: str | dict[str, Any], request: p.RerankQuery) -> str:
    text = document if isinstance(document, str) else _text_of(i, document, request.rank_fields or ("text",))
    if request.max_tokens_per_doc is None:
        return text
    beyond = next(islice(token_spans(text), request.max_tokens_per_doc, None), None)
    return text if beyond is None else text[: beyond[0]]


def _text_of(i: int, document: dict[str, Any], fields: Sequence[str]) -> str:
    found = {name: document[name] for name in fields if isinstance(document.get(name), str)}
    if not found:
        raise InputError(f"/documents/{i}: allowed is a text, or an object with a text in {' or '.join(fields)}")
    if len(fields) == 1:
        return str(found[fields[0]])
    return "\n".join(f"{name}: {text}" for name, text in found.items())


def _attributes(ranking: Ranking) -> dict[str, Any]:
    figures = {"spent": ranking.cost.model_dump(), "saved": ranking.saved.model_dump()}
    found = {f"ragtune.{name}.{unit}": amount for name, units in figures.items() for unit, amount in units.items()}
    return found | {"ragtune.stop": "" if ranking.stop is None else ranking.stop.reason}
