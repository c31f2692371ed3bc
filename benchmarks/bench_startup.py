"""How long imports and the command line take to start, medians of several processes.

    python benchmarks/bench_startup.py [--repeats 7]

Targets: ``import ragtune`` within 0.15 s of importing NumPy and Pydantic alone; ``python run.py --help`` under 1 s.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = {
    "numpy and pydantic": [sys.executable, "-c", "import numpy, pydantic"],
    "import ragtune": [sys.executable, "-c", "import ragtune"],
    "run.py --help": [sys.executable, str(ROOT / "run.py"), "--help"],
}


def seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    medians = {name: statistics.median(seconds(c) for _ in range(arguments.repeats)) for name, c in COMMANDS.items()}
    for name, value in medians.items():
        print(f"{name}: {value:.3f} s")
    print(f"ragtune over its base: {medians['import ragtune'] - medians['numpy and pydantic']:.3f} s")


if __name__ == "__main__":
    main()
