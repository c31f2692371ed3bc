"""What happens when rerankers fail: how long one is tried, and what becomes of documents that it could not score."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from pydantic import BaseModel, ConfigDict, Field

from ragtune.core.batches import RETRY_AFTER_S
from ragtune.core.batches.breaker import CircuitBreaker, Permit
from ragtune.core.request.clock import Clock, MonotonicClock


class FailurePolicy(BaseModel):
    """Rules for batches that fail as a whole: the reranker raised, or no score that it returned can be used.

    Attributes:
        batches_in_a_row: failed batches in a row after which a strategy is closed for the request, >= 1. More of them
            than there are documents always close it.
        requests_in_a_row: requests in a row without a single scored batch after which a strategy is closed for the
            requests to come, >= 1.
        retry_after_s: seconds after which a strategy so closed is tried again, by one request, >= 0.
        keep_unscored: whether documents whose score was lost (DROPPED) stay in the answer, ordered like all others
            without a score. False leaves them out, which is rule F1 to the letter.
    """

    batches_in_a_row: int = Field(default=3, ge=1)
    requests_in_a_row: int = Field(default=3, ge=1)
    retry_after_s: float = Field(default=RETRY_AFTER_S, ge=0.0, allow_inf_nan=False)
    keep_unscored: bool = True

    model_config = ConfigDict(frozen=True, extra="forbid")


class BatchCount(BaseModel):
    """How many batches a request tried to have scored, and how many failed as a whole.

    Attributes:
        sent: batches sent to a reranker.
        failed: batches that were sent and brought no score.
        first_error: the first failure of this request in words; for a strategy that was closed before the request, the
            failure that closed it; None where nothing failed.
    """

    sent: int = 0
    failed: int = 0
    first_error: str | None = None

    model_config = ConfigDict(frozen=True)


@dataclass
class _Record:
    """One strategy in one request."""

    permit: Permit
    in_a_row: int = 0
    has_scored: bool = False
    has_failed: bool = False
    error: str | None = None


@dataclass
class RequestBreakers:
    """Which strategies one request may still use."""

    run: RunBreakers
    records: dict[str, _Record] = field(default_factory=dict)
    closed: dict[str, str] = field(default_factory=dict)
    sent: int = 0
    failed: int = 0
    first_error: str | None = None

    def admits(self, strategy: str) -> bool:
        """Whether a batch may be sent; the first one of a request asks whether the strategy is closed for the run."""
        if strategy not in self.records and strategy not in self.closed:
            if (permit := self.run.enter(strategy)) is None:
                self.closed[strategy] = self.run.errors.get(strategy, "")
                self.first_error = self.first_error or self.closed[strategy]
            else:
                self.records[strategy] = _Record(permit)
        return strategy not in self.closed

    def scored(self, strategy: str) -> None:
        """A batch brought scores."""
        self.sent += 1
        record = self.records[strategy]
        record.in_a_row, record.has_scored = 0, True

    def failed_with(
        self, strategy: str, error: str, *, docs: int, is_telling: bool = True, is_last: bool = False
    ) -> bool:
        """A batch failed, in a pool of so many ``docs``; whether the strategy is closed for the request now.

        For the run it counts only if it ``is_telling`` of the reranker's health. A full queue is not, nor is the end of
        the request's own time. After the last batch of the request (``is_last``) the strategy is closed at once.
        """
        self.sent += 1
        self.failed += 1
        self.first_error = self.first_error or error
        record = self.records[strategy]
        record.in_a_row += 1
        record.error = record.error or error
        record.has_failed |= is_telling
        # What failed may be sent again (rule F6), so a policy that never gives up would go on for ever.
        if is_last or record.in_a_row >= min(self.run.policy.batches_in_a_row, docs + 1):
            self.closed[strategy] = record.error
        return strategy in self.closed

    def fork(self) -> RequestBreakers:
        """Breakers of another request to which the same has happened so far; to the run it is a request of its own."""
        twin = replace(self, records={}, closed=dict(self.closed))
        for strategy, record in self.records.items():
            if (permit := self.run.enter(strategy)) is not None:
                twin.records[strategy] = replace(record, permit=permit)
        return twin

    def count(self) -> BatchCount:
        """The batches so far."""
        return BatchCount(sent=self.sent, failed=self.failed, first_error=self.first_error)

    def finish(self) -> None:
        """The request is over: tell the run how its strategies did."""
        for strategy, record in self.records.items():
            error = record.error if record.has_failed else None
            self.run.leave(strategy, record.permit, record.has_scored, error)


class RunBreakers:
    """Remembers across requests which strategies are hopeless; thread-safe. Scores and orders never depend on it as
    long as nothing fails.

    Args:
        policy: limits of how long a failing strategy is tried.
        strategies: names of the rerankers.
        clock: clock that the time until a new try is read from; the monotonic clock by default.
    """

    def __init__(self, policy: FailurePolicy, strategies: Iterable[str], clock: Clock | None = None) -> None:
        self.policy = policy
        self.errors: dict[str, str] = {}
        now = clock or MonotonicClock()
        self._breakers = {
            name: CircuitBreaker(policy.requests_in_a_row, policy.retry_after_s * 1000.0, now) for name in strategies
        }

    @property
    def closed(self) -> dict[str, str]:
        """The strategies that are not tried at present, and why."""
        return {name: self.errors.get(name, "") for name, breaker in self._breakers.items() if breaker.state == "open"}

    def open_request(self) -> RequestBreakers:
        """The breakers of a new request; what is closed for the run is closed in it from the beginning."""
        closed = self.closed
        return RequestBreakers(self, closed=closed, first_error=next(iter(closed.values()), None))

    def enter(self, strategy: str) -> Permit | None:
        """What a request may use the strategy with, None if it may not; one that may must :meth:`leave`."""
        return self._breakers[strategy].enter()

    def leave(self, strategy: str, permit: Permit, has_scored: bool, error: str | None) -> None:
        """A request that used the strategy is over."""
        breaker = self._breakers[strategy]
        if has_scored:
            self.errors.pop(strategy, None)
            breaker.succeed()
        elif error is not None:
            self.errors.setdefault(strategy, error)
            breaker.fail(permit)
        else:
            breaker.leave(permit)
