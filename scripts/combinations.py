"""python scripts/combinations.py: writes docs/components/combinations.md, what becomes of every combination of parts."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from experiments.conformance.combinations import cells, page
from experiments.publish.files import write_text


def main() -> None:
    """Replay every combination and write the page."""
    write_text(ROOT / "docs" / "components" / "combinations.md", page(list(cells())))


if __name__ == "__main__":
    main()
