"""OpenTelemetry, where it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def span(name: str, attributes: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A span around a piece of work; without the extra ``telemetry`` nothing but the work.

    Where spans go is the program's own choice, by OpenTelemetry's SDK and its environment variables.

    Args:
        name: what is done.
        attributes: what is known of it beforehand.

    Yields:
        A dict whose entries become attributes once the work is done.
    """
    found: dict[str, Any] = {}
    try:
        from opentelemetry import trace
    except ImportError:
        yield found
        return
    with trace.get_tracer("ragtune").start_as_current_span(name, attributes=attributes) as current:
        yield found
        current.set_attributes(found)
