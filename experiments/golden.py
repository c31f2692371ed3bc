"""Golden-vector conformance, as runs log it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any


@lru_cache(maxsize=1)
def check_golden() -> dict[str, Any]:
    """Outcome (``passed``, ``failed`` or ``skipped``) and the spec version; checked once per process."""
    return {"outcome": "skipped", "spec": None}
