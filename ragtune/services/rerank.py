"""What the rerank API works on: a model and a policy, with a budget behind every request."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from itertools import islice
from typing import Any, Literal

from ragtune.canonical.permit import current
from ragtune.canonical.service import LimitExceededError
from ragtune.core.batches.failures import FailurePolicy
from ragtune.core.errors import ConfigError, InputError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.policy.defaults import TRUST
from ragtune.core.tokens import token_spans
from ragtune.core.units import TIME
from ragtune.embedders.passages import Passages
from ragtune.facade.doubts import Doubts
from ragtune.facade.policies import Policy, policy_named
from ragtune.facade.reranker import BudgetedReranker, Job
from ragtune.rerankers._cached import CachedReranker
from ragtune.rerankers.calibration import Calibration
from ragtune.services import payloads as p
from ragtune.services.chain import Chain, Hop, Link, Model, ServedRanking, first_stage, is_timed
from ragtune.services.learn import Learner, replayed
from ragtune.services.metrics import Metrics
from ragtune.services.shadow import Shadow, ShadowOptions
from ragtune.services.telemetry import traced
from ragtune.services.turns import LateError, Turns
from ragtune.services.usage import KeyUsage, Lease


class RerankServer:
    """Ranks what requests bring, within the server's budget unless they name their own, and never above the caps.

    Without a budget, everything is reranked in one call, or compared until nothing is left to ask. Requests share the
    calls of a model that ``is_local``. All have an answer within ``time_s`` seconds, however many there are. A model
    that scores nothing is followed by the ``fallbacks``, and by the first stage's order.
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
        is_local: bool = False,
        time_s: float = 27.0,
        fallbacks: Sequence[Model] = (),
        shadow: ShadowOptions | None = None,
        failures: FailurePolicy | None = None,
        calibration: Calibration | None = None,
        usage: KeyUsage | None = None,
        passages: Passages | None = None,
    ) -> None:
        self.metrics = Metrics(lambda: self.is_failing)
        if isinstance(reranker, CachedReranker):
            reranker.observe = self.metrics.looked_up

        def make(link: Link, in_full: bool) -> BudgetedReranker:
            is_first = link is self._links[0]  # a calibration is of one model's scores
            common: dict[str, Any] = {"failures": failures, "calibration": calibration if is_first else None}
            common["passages"] = passages
            if in_full:
                return BudgetedReranker(link.asked, policy="fixed_depth", docs=self._most, **common)
            doubts = Doubts(self._log, "--trust (0 follows the sources, 1 the model)")
            parts = policy_named(policy, batch_size, trust=doubts.dial(trust)) if isinstance(policy, str) else policy
            if is_first:
                self._policy = parts
            self._ends_by_itself = parts.compares
            self._everything = {"calls": sys.maxsize} if parts.compares else {"docs": self._most}
            limits = (self._capped(self._defaults) or self._everything) | ({} if usage is None else usage.limits)
            named: dict[str, Any] = link.kept(limits) or self._everything
            return BudgetedReranker(link.asked, policy=parts, doubts=doubts, **common, **named)

        self.model = model
        self.max_documents = max_documents
        self.max_length: int = getattr(reranker, "max_length", None) or 512
        self._time_ms = 1000.0 * time_s
        self._usage = usage
        self._passages = passages
        self._most = max_documents if passages is None else sys.maxsize  # a document may have many
        self._defaults = _set(budget or {})
        self._caps = _set(caps or {})
        self._turns = Turns()
        self._shadow: Shadow | None = None
        self._links = [
            Link(each, self._turns, self.metrics.shared.observe, is_first=number == 0)
            for number, each in enumerate((Model(model, reranker, is_local), *fallbacks))
        ]
        self._chain = Chain(self._links)
        try:
            for link in self._links:
                link.set_up(make)
            if shadow is not None:
                name = policy if isinstance(policy, str) else type(policy.estimator).__name__
                self._shadow = Shadow(shadow, model, name, self._links[0].full, self._learner_of(shadow))
                self.metrics.watch_shadow(self._shadow)
        except BaseException:
            self.close()
            raise

    @property
    def is_failing(self) -> bool:
        """Whether a model failed the latest request that it had, or is not asked at present for that reason."""
        return any(link.has_failed or link.closed is not None for link in self._links)

    def stop(self) -> None:
        """Put no further batch to the model: requests under way are answered with what is there."""
        for link in self._links:
            link.stop()

    def close(self) -> None:
        """End the threads that call the model, once their calls are over."""
        self.stop()
        if self._shadow is not None:
            self._shadow.close()
        if self._usage is not None:
            self._usage.close()
        for link in self._links:
            link.close()

    def __enter__(self) -> RerankServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rank(self, request: p.RerankQuery) -> ServedRanking:
        """The ranking within the request's time."""
        if len(request.documents) > self.max_documents:
            raise LimitExceededError(
                f"/documents: {len(request.documents)} documents, allowed are at most {self.max_documents}"
            )
        if request.min_score is not None and self._links[0].asked.facts.compares:
            raise InputError("/min_score: allowed with a model that gives scores; this one compares documents")
        texts = [_text(i, document, request) for i, document in enumerate(request.documents)]
        job = Job(request.query, texts, request.scores, request.vectors, request.signals, request.query_vector)
        named: dict[str, Any] = {} if request.budget is None else request.budget.model_dump(exclude_unset=True)
        learner = None if self._shadow is None else self._shadow.learner
        learned = {} if learner is None else learner.limits
        limits = self._capped(_set(self._defaults | learned | named))
        leased = nullcontext(Lease({}, [])) if self._usage is None else self._leased(self._usage, texts, limits)
        with (
            leased as (left, costs, refused),
            traced(self.model, request, texts) as tell,
            self._chain.expected(),
        ):
            in_full = not (limits or self._ends_by_itself)
            limits |= {unit: min(amount, limits.get(unit, amount)) for unit, amount in left.items()}
            if refused is not None:
                left_ms, ranking = 0.0, first_stage(job, *refused)
            else:
                left_ms, ranking = self._ranked(job, limits, in_full=in_full)
            costs.append(ranking.cost + ranking.possible)
            self.metrics.ranked(ranking)
            tell(ranking)
        if (limit_ms := limits.get(TIME.short)) is not None:
            self.metrics.timed(current().waited_ms, limit_ms)
        if self._shadow is not None and texts and not self._is_given_up(ranking, limits, left_ms):
            self._shadow.offer(job, ranking, limits, is_own=ranking.answered_by == self.model)
        return ranking.at_least(request.min_score)

    def _learner_of(self, options: ShadowOptions) -> Learner | None:
        if options.learn is None:
            return None
        if self._policy.compares or self._passages is not None:
            raise ConfigError("--learn: allowed with policies that choose by scores, and without --passages")
        return Learner(options.learn, options.tolerance, replayed(self._policy), self._log)

    def _leased(self, usage: KeyUsage, texts: Sequence[str], limits: Mapping[str, float]) -> Any:
        count = len(texts) if self._passages is None else sum(map(self._passages.count, texts))
        return usage.lease(current().key, int(min(count, limits.get("docs", count))))

    def _ranked(self, job: Job, limits: dict[str, float], *, in_full: bool) -> tuple[float, ServedRanking]:
        """The milliseconds that the request had, and its ranking."""
        try:
            with self._turns.within(min(self._time_ms, limits.get(TIME.short, math.inf))) as left_ms:
                return left_ms, self._chain.rank(job, limits or self._everything, left_ms, in_full=in_full)
        except LateError as error:
            return 0.0, first_stage(job, "late", str(error), (Hop(self.model, "late", str(error)),))

    def _is_given_up(self, ranking: ServedRanking, limits: Mapping[str, float], left_ms: float) -> bool:
        """Whether the answer was cut short by anything but the request's budget; ``left_ms`` is the time it had."""
        if current().is_withdrawn or self._links[0].asked.is_stopped:
            return True
        if limits.get(TIME.short, math.inf) < self._time_ms:
            return False
        return ranking.cost.latency_ms >= left_ms or (ranking.stop is not None and is_timed(ranking.stop))

    def _capped(self, limits: dict[str, float]) -> dict[str, float]:
        return limits | {unit: min(cap, limits.get(unit, cap)) for unit, cap in self._caps.items()}

    def _log(self, doubt: str) -> None:
        sys.stderr.write(f"ragtune: warning: {doubt}\n")
        self.metrics.doubted(doubt)


def _set(limits: Mapping[str, float | None]) -> dict[str, float]:
    return {unit: limit for unit, limit in limits.items() if limit is not None}


def _text(i: int, document: str | dict[str, Any], request: p.RerankQuery) -> str:
    text = document if isinstance(document, str) else _text_of(i, document, request.rank_fields or ("text",))
    if request.max_tokens_per_doc is None:
        return text
    beyond = next(islice(token_spans(text), min(request.max_tokens_per_doc, sys.maxsize), None), None)
    return text if beyond is None else text[: beyond[0]]


def _text_of(i: int, document: dict[str, Any], fields: Sequence[str]) -> str:
    found = {name: document[name] for name in fields if isinstance(document.get(name), str)}
    if not found:
        raise InputError(f"/documents/{i}: allowed is a text, or an object with a text in {' or '.join(fields)}")
    if len(fields) == 1:
        return str(found[fields[0]])
    return "\n".join(f"{name}: {text}" for name, text in found.items())
