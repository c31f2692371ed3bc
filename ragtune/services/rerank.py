"""The rerank API: other servers' requests and answers, with a budget behind them."""

from __future__ import annotations

import math
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from ragtune.canonical.permit import current
from ragtune.canonical.service import LimitExceededError
from ragtune.core.batches.failures import FailurePolicy
from ragtune.core.errors import ConfigError, InputError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.tokens import token_spans
from ragtune.core.types import CostObject
from ragtune.core.units import TIME, UNITS, search_units
from ragtune.facade.defaults import TRUST
from ragtune.services import rerank_payloads as p
from ragtune.services.batching import SharedCalls
from ragtune.services.errors import AdapterError
from ragtune.services.learn import Learner, replayed
from ragtune.services.metrics import Metrics, span
from ragtune.services.operations import Operation
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
                self._shadow = Shadow(shadow, model, name, self._full, self._learner_of(shadow, parts))
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
        learner = None if self._shadow is None else self._shadow.learner
        learned = {} if learner is None else learner.limits
        limits = self._capped(_set(self._defaults | learned | named))
        ranker = self._choosy if limits or self._ends_by_itself else self._full
        with self._traced(len(texts)) as attributes, self._in_time(limits) as timed:
            ranking = ranker.rank(**job._asdict(), budget=timed or self._everything)
            self.metrics.ranked(ranking, billed_units(ranking))
            attributes.update(_attributes(ranking))
        if self._shadow is not None and texts and not self._is_given_up(ranking, limits, timed):
            self._shadow.offer(job, ranking, limits)
        return ranking

    @staticmethod
    def _learner_of(options: ShadowOptions, policy: Policy) -> Learner | None:
        if options.learn is None:
            return None
        if policy.compares:
            raise ConfigError("--learn: allowed with policies that choose by scores, not with those of windows")
        return Learner(options.learn, options.tolerance, replayed(policy), _log)

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


def _answer(server: RerankServer | None, request: p.RerankQuery, version: str, with_documents: bool) -> dict[str, Any]:
    if server is None:
        raise AdapterError("no-model", "Start it with --model to rerank documents here.")
    ranking = server.rank(request)
    shown = with_documents if request.return_documents is None else request.return_documents
    results = [
        {"index": one.index, "relevance_score": one.score, "estimated": one.estimated}
        | ({"document": _given(request.documents[one.index])} if shown else {})
        for one in ranking[: request.top_n or None]
    ]
    warnings = _warnings(request, ranking)
    meta = {
        "api_version": {"version": version, "is_experimental": False},
        "billed_units": {"search_units": billed_units(ranking)},
        "tokens": {"input_tokens": ranking.cost.tokens, "output_tokens": 0},
    }
    return {
        "id": str(uuid.uuid4()),
        "results": results,
        "meta": meta | ({"warnings": warnings} if warnings else {}),
        "model": server.model,
        "usage": {"total_tokens": ranking.cost.tokens, "prompt_tokens": ranking.cost.tokens},
        "ragtune": _account(ranking),
    }


def _given(document: str | dict[str, Any]) -> dict[str, Any]:
    return {"text": document} if isinstance(document, str) else document


def billed_units(ranking: Ranking) -> int:
    """The search units of the calls that were answered: as the upstream bills them, else as Cohere would."""
    if ranking.cost.search_units:
        return ranking.cost.search_units
    scored = sum(one.reranked for one in ranking)
    return max(ranking.batches.sent - ranking.batches.failed, search_units(scored)) if scored else 0


def _account(ranking: Ranking) -> dict[str, Any]:
    stop = {} if ranking.stop is None else ranking.stop.model_dump(include={"reason", "source", "message"})
    return {
        "spent": _spending(ranking.cost),
        "saved": _spending(ranking.saved),
        "stop": stop,
        "reranked": [one.index for one in ranking if one.reranked],
        "failed": sorted(ranking.failures),
    }


def _spending(cost: CostObject) -> dict[str, Any]:
    return {unit.short: amount for unit in UNITS if (amount := getattr(cost, unit.name)) or unit.is_always_told}


def _warnings(request: p.RerankQuery, ranking: Ranking) -> list[str]:
    unknown = islice(request.model_extra or {}, 20)
    return [*(f"{name[:100]!r} is unknown here and ignored" for name in unknown), *ranking.warnings]


def _operation(name: str, path: str, version: str, response: Any, with_documents: bool = False) -> Operation[Any]:
    return Operation(
        name,
        "Rank documents within a budget, as Cohere's and Jina's clients ask for it.",
        p.RerankQuery,
        response,
        lambda server, request: _answer(server, request, version, with_documents),
        path,
    )


RERANK_OPERATIONS = (
    _operation("rerank_v1", "/v1/rerank", "1", p.RankedWithUsage),
    _operation("rerank_v2", "/v2/rerank", "2", p.Ranked),
    _operation("rerank_jina", "/rerank", "1", p.RankedWithUsage, with_documents=True),
)
"""The rerank API. At its first path is the block ``rerank`` of ragd as well: a request of that has ``candidates``."""
