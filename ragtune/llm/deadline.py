"""How long a call may still take, whether it is sent or answered from the record."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ragtune.core.request.clock import Clock


@dataclass
class Deadline:
    """When a call must have ended, its retries, waits and repair included.

    Attributes:
        clock: the client's.
        within_ms: milliseconds from now, infinite for no limit.
        recorded_ms: what recorded answers took when they were made: replaying them takes no time, and must not win any.
    """

    clock: Clock
    within_ms: float = math.inf
    recorded_ms: float = 0.0
    _begun_ms: float = field(init=False)

    def __post_init__(self) -> None:
        self._begun_ms = self.clock.now_ms()

    @property
    def left_ms(self) -> float:
        """Milliseconds left, never below 0."""
        return max(0.0, self.within_ms - (self.clock.now_ms() - self._begun_ms) - self.recorded_ms)

    def spend_recorded(self, ms: float) -> bool:
        """Whether an answer that took ``ms`` when it was made would have come in time; if so, its time is spent."""
        if ms > self.left_ms:
            return False
        self.recorded_ms += ms
        return True
