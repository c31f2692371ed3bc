"""Folders of the project."""

from __future__ import annotations

from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parents[2]
CONF = PROJECT_ROOT / "conf"
SHIPPED = PROJECT_ROOT / "datasets" / "demo"
