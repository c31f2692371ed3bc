"""Every benchmark, one after the other: what ``make bench`` runs. Ratios and medians; nothing here can fail a build."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = (
    "bench_startup.py",
    "bench_controller.py",
    "bench_estimators.py",
    "bench_superprompt.py",
    "bench_sweep.py",
    "bench_models.py",
    "bench_bm25.py",
    "bench_store.py",
    "bench_rest.py",
)


def main() -> int:
    """Run them; the first exit code that is not 0, if any."""
    codes = []
    for name in BENCHMARKS:
        print(f"\n== {name}", flush=True)
        codes.append(subprocess.run([sys.executable, str(Path(__file__).parent / name)], check=False).returncode)
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main())
