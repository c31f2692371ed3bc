"""When to try again: exponential backoff with jitter that repeats, and the server's own wish."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

LONGEST_WAIT_S = 60.0
"""A server that asks for a longer wait is not waited for: the call fails and says so."""


def backoff_s(attempt: int, initial_s: float, cap_s: float, salt: bytes) -> float:
    """Seconds to wait after the ``attempt``-th failure (from 1): initial * 2^(attempt - 1), at most ``cap_s``.

    Half of it is jitter, so that clients that failed together do not return together; it is drawn from the call's own
    hash, so that a rerun waits as long.
    """
    longest = min(cap_s, initial_s * 2.0 ** min(attempt - 1, 60))
    draw = hashlib.sha256(salt + attempt.to_bytes(4, "big")).digest()
    return longest * (0.5 + 0.5 * int.from_bytes(draw[:4], "big") / 2**32)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait (RFC 9110, section 10.2.3: a number or a date); None without a wish."""
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return max(0.0, seconds) if seconds == seconds else None
