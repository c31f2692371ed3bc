from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
from pydantic import ValidationError

from ragtune.core.request.clock import VirtualClock
from ragtune.core.request.trace import ControllerTrace


def test_events_are_stamped_from_the_start_of_the_trace():
    clock = VirtualClock(start_ms=100.0)
    trace = ControllerTrace(query_id="q", clock=clock)
    trace.add("budget", "deny_rerank", reason="x")
    clock.advance(3.0)
    trace.add("controller", "stop")
    assert [(e.timestamp, e.component, e.action, e.details) for e in trace.events] == [
        (0.0, "budget", "deny_rerank", {"reason": "x"}),
        (3.0, "controller", "stop", {}),
    ]


def test_details_may_have_any_name():
    trace = ControllerTrace()
    trace.add("a", "b", component="c", action="d", self="e")
    assert trace.events[0].details == {"component": "c", "action": "d", "self": "e"}


def test_find_filters_by_action_and_component():
    trace = ControllerTrace()
    trace.add("a", "x", n=1)
    trace.add("b", "x", n=2)
    trace.add("a", "y", n=3)
    assert [e.details["n"] for e in trace.find("x")] == [1, 2]
    assert [e.details["n"] for e in trace.find("x", "b")] == [2]
    assert trace.find("z") == []


def test_a_trace_survives_json():
    trace = ControllerTrace(query_id="q", clock=VirtualClock())
    trace.add("a", "x", ids=["1"], cost={"docs": 1})
    text = trace.model_dump_json()
    assert text == (
        '{"query_id":"q","events":[{"timestamp":0.0,"component":"a","action":"x",'
        '"details":{"ids":["1"],"cost":{"docs":1}}}]}'
    )
    again = ControllerTrace.model_validate_json(text)
    assert again.events == trace.events
    assert again.query_id == "q"


@pytest.mark.parametrize("event", [{"timestamp": "soon", "component": "a", "action": "x"}, {"timestamp": 0.0}, "event"])
def test_a_trace_that_comes_from_outside_is_checked(event):
    with pytest.raises(ValidationError, match=r"events\.0"):
        ControllerTrace.model_validate({"events": [event]})


def test_an_event_cannot_be_changed():
    trace = ControllerTrace()
    trace.add("a", "x")
    with pytest.raises(FrozenInstanceError):
        trace.events[0].action = "y"
