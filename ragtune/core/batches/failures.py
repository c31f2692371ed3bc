"""What happens when rerankers fail: how long one is tried, and what becomes of documents that it could not score."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace

from pydantic import BaseModel, ConfigDict, Field

from ragtune.core.batches import RETRY_AFTER_S
from ragtune.core.batches.breaker import CircuitBreaker, Permit


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
    error: str = ""


class RequestBreakers:
    """Which strategies one request may still use.

    Args:
        run: breakers of the strategies by name, which all requests share.
        policy: limits of how long a failing strategy is tried.

    Attributes:
        closed: the strategies that this request may not use, and why.
    """

    def __init__(self, run: Mapping[str, CircuitBreaker], policy: FailurePolicy) -> None:
        self._run = run
        self._policy = policy
        self._records: dict[str, _Record] = {}
        self.closed = closed_in(run)
        self.sent = self.failed = 0
        self._first_error = next(iter(self.closed.values()), None)

    def admits(self, strategy: str) -> bool:
        """Whether a batch may be sent; the first one of a request asks whether the strategy is closed for the run."""
        if strategy not in self._records and strategy not in self.closed:
            if (permit := self._run[strategy].enter()) is None:
                self.closed[strategy] = self._run[strategy].error
                self._first_error = self._first_error or self.closed[strategy]
            else:
                self._records[strategy] = _Record(permit)
        return strategy not in self.closed

    def scored(self, strategy: str) -> None:
        """A batch brought scores."""
        self.sent += 1
        record = self._records[strategy]
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
        self._first_error = self._first_error or error
        record = self._records[strategy]
        record.in_a_row += 1
        record.error = record.error or error
        record.has_failed |= is_telling
        # What failed may be sent again (rule F6), so a policy that never gives up would go on for ever.
        if is_last or record.in_a_row >= min(self._policy.batches_in_a_row, docs + 1):
            self.closed[strategy] = record.error
        return strategy in self.closed

    def fork(self) -> RequestBreakers:
        """Breakers of another request to which the same has happened so far; to the run it is a request of its own."""
        twin = copy(self)
        twin.closed = dict(self.closed)
        permits = {strategy: self._run[strategy].enter() for strategy in self._records}
        twin._records = {
            name: replace(self._records[name], permit=permit) for name, permit in permits.items() if permit
        }
        return twin

    def count(self) -> BatchCount:
        """The batches so far."""
        return BatchCount(sent=self.sent, failed=self.failed, first_error=self._first_error)

    def finish(self) -> None:
        """The request is over: tell the run how its strategies did."""
        for strategy, record in self._records.items():
            breaker = self._run[strategy]
            if record.has_scored:
                breaker.succeed()
            elif record.has_failed:
                breaker.fail(record.permit, record.error)
            else:
                breaker.leave(record.permit)


def closed_in(run: Mapping[str, CircuitBreaker]) -> dict[str, str]:
    """The strategies that are not tried at present, and why."""
    return {strategy: breaker.error for strategy, breaker in run.items() if breaker.state == "open"}
