"""Folders of the project."""

from __future__ import annotations

from pathlib import Path

import ragtune

PROJECT_ROOT = Path(__file__).resolve().parents[2]
"""Folder of ``experiments/`` and ``conf/``: a checkout, or ``ragtune/_harness`` of an installed wheel."""

CONF = PROJECT_ROOT / "conf"

SHIPPED = Path(ragtune.__file__).resolve().parent / "data" / "demo"
