"""How long tests wait for what should end by itself."""

from __future__ import annotations

HANG_S = 900.0
"""Guards against hanging alone: more than a command takes on the slowest and busiest machine."""
