"""Traces that nobody but a file will read."""

from __future__ import annotations

from typing import Any

import orjson

from ragtune.core.request.clock import Clock
from ragtune.core.request.trace import ControllerTrace, TraceEvent


class PlainTrace(ControllerTrace):
    """A trace whose events are plain data, as its text has them; made and written in a fifth of the time."""

    events: list[Any]

    @classmethod
    def forked(cls, trace: ControllerTrace, clock: Clock) -> PlainTrace:
        """A trace with the same events so far, whose next ones are stamped by ``clock``."""
        events = [{name: getattr(event, name) for name in event.__slots__} for event in trace.events]
        state, twin = trace.__getstate__(), cls.__new__(cls)
        twin.__setstate__({**state, "__dict__": {**state["__dict__"], "events": events, "clock": clock}})
        return twin

    def add(self, component: str, action: str, /, **details: Any) -> None:
        now = self.clock.now_ms() - self.start_ms
        self.events.append({"timestamp": now, "component": component, "action": action, "details": details})


def text_of(trace: ControllerTrace) -> str:
    """What ``model_dump_json`` says of a trace whose events are plain data, at a twentieth of its time."""
    events: list[Any] = trace.events
    try:
        return orjson.dumps({"query_id": trace.query_id, "events": events}, option=_NO_OTHERS).decode()
    except TypeError:  # what parts of others may note: a number of NumPy or of more than 64 bits, a key that is no text
        whole = ControllerTrace(query_id=trace.query_id, events=[TraceEvent(**event) for event in events])
        return whole.model_dump_json()


_NO_OTHERS = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
"""Kinds of details that traces tell in words."""
