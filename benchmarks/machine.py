"""How fast the machine is, stored beside the figures that were measured on it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

REFERENCE = "reference, CPU s of 10 million additions"
"""Name of the figure: divide CPU seconds by it to compare figures of different machines."""


def reference_s() -> float:
    """CPU seconds of 10 million additions in a plain Python loop, the best of three."""
    return min(_additions_s() for _ in range(3))


def _additions_s() -> float:
    begun, total = time.process_time(), 0
    for i in range(10_000_000):
        total += i
    return time.process_time() - begun


def report(figures: Mapping[str, Any], file: Path | None = None) -> None:
    """Print the machine's reference, and write it with the figures to the file if there is one."""
    reference = round(reference_s(), 3)
    print(f"{REFERENCE}: {reference}")
    if file is not None:
        file.write_text(json.dumps({**figures, REFERENCE: reference}, indent=2) + "\n", encoding="utf-8")
