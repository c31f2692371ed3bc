"""Typed decision traces: what was proposed, why it was granted or denied, what it cost, why the loop stopped."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_serializer
from pydantic.json_schema import SkipJsonSchema

from ragtune.core.plain import plain
from ragtune.core.request.clock import Clock, MonotonicClock


@dataclass(slots=True)
class TraceEvent:
    """One decision (rule A4) of a component, with JSON-serialisable facts, at milliseconds of the run's clock."""

    timestamp: float
    component: str
    action: str
    details: dict[str, Any] = field(default_factory=dict)

    @field_serializer("details", when_used="json")
    def _plain_details(self, details: dict[str, Any]) -> Any:
        return plain(details)  # components may add events


class ControllerTrace(BaseModel):
    """The full execution history of one query: its id, and the decisions in order.

    Neither the clock that stamps the events nor ``start_ms``, its reading at the start, is part of the record.

    Examples:
        >>> from ragtune.core.request.trace import ControllerTrace
        >>> trace = ControllerTrace(query_id="q1")
        >>> trace.add("scheduler", "stop", reason="settled")
        >>> [event.details["reason"] for event in trace.find("stop")]
        ['settled']
    """

    query_id: str = ""
    events: list[TraceEvent] = Field(default_factory=list)
    clock: SkipJsonSchema[Clock] = Field(default_factory=MonotonicClock, exclude=True, repr=False)
    start_ms: SkipJsonSchema[float] = Field(default=0.0, exclude=True, repr=False)

    model_config = ConfigDict(arbitrary_types_allowed=True)

    def model_post_init(self, context: Any, /) -> None:
        self.start_ms = self.clock.now_ms()

    def fork(self, clock: Clock) -> ControllerTrace:
        """A trace with the same events so far, whose next ones are stamped by ``clock``."""
        twin = copy(self)
        twin.events, twin.clock = list(self.events), clock
        return twin

    def add(self, component: str, action: str, /, **details: Any) -> None:
        """Append an event, stamped now."""
        self.events.append(TraceEvent(self.clock.now_ms() - self.start_ms, component, action, details))

    def find(self, action: str, component: str | None = None) -> list[TraceEvent]:
        """The events of one action, in order, optionally of one component only."""
        return [e for e in self.events if e.action == action and component in (None, e.component)]
