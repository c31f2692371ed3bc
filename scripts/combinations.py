"""python scripts/combinations.py: writes docs/components/combinations.md, the table of all combinations of parts."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.config.paths import PROJECT_ROOT
from experiments.conformance.combinations import PAGE, cells, page
from experiments.publish.files import write_text


def main() -> None:
    """Replay every combination and write the page."""
    write_text(PROJECT_ROOT / PAGE, page(list(cells())))


if __name__ == "__main__":
    main()
