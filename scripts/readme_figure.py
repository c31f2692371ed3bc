"""python scripts/readme_figure.py [--data ../shared/data]: draws results/readme-curve.png and prints its figures."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.config.paths import PROJECT_ROOT
from experiments.study.showcase import showcase


def main() -> int:
    """Draw the figure and print its numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=PROJECT_ROOT.parent / "shared" / "data")
    arguments = parser.parse_args()
    figures = showcase(arguments.data, PROJECT_ROOT / "results" / "readme-curve.png")
    sys.stdout.write(json.dumps(figures) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
