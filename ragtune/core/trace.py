"""Typed decision traces: what was proposed, why it was granted or denied, what it cost, why the loop stopped."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from ragtune.core.clock import Clock, MonotonicClock


class TraceEvent(BaseModel):
    """One decision (0.1, section 2A).

    Attributes:
        timestamp: milliseconds since the trace began, on the run's clock (virtual under replay, so traces of the
            same run are byte-identical).
        component: who decided, e.g. ``budget``, ``controller``, ``scheduler``.
        action: what was done, e.g. ``consume_rerank``, ``deny_rerank``, ``stop``.
        details: JSON-serialisable facts.
    """

    timestamp: float
    component: str
    action: str
    details: dict[str, Any] = Field(default_factory=dict)

    model_config = ConfigDict(frozen=True)


class ControllerTrace(BaseModel):
    """The full execution history of one query."""

    query_id: str = ""
    events: list[TraceEvent] = Field(default_factory=list)

    _clock: Clock = PrivateAttr(default_factory=MonotonicClock)
    _start_ms: float = PrivateAttr(default=0.0)

    def model_post_init(self, context: Any, /) -> None:
        self.use_clock(self._clock)

    def use_clock(self, clock: Clock) -> None:
        """Stamp the following events by ``clock``, counted from now."""
        self._clock = clock
        self._start_ms = clock.now_ms()

    def add(self, component: str, action: str, /, **details: Any) -> None:
        """Append an event, stamped now."""
        self.events.append(
            TraceEvent(
                timestamp=self._clock.now_ms() - self._start_ms,
                component=component,
                action=action,
                details=details,
            )
        )

    def find(self, action: str, component: str | None = None) -> list[TraceEvent]:
        """The events of one action, in order, optionally of one component only."""
        return [e for e in self.events if e.action == action and component in (None, e.component)]
