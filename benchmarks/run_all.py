"""Every benchmark, one after the other: what ``make bench`` runs. Ratios and medians; nothing here can fail a build.

    python benchmarks/run_all.py [NAME ...] [--out results/bench]

After each of them the figures of those that can write them go to ``bench.json``, with the commit and the machine that
they come from, to tables in ``bench.md``, the promises first, and what grows with the number of queries to
``growth.png``.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = (
    "bench_startup.py",
    "bench_controller.py",
    "bench_depths.py",
    "bench_queries.py",
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these, e.g. bench_queries.py")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "bench")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in BENCHMARKS]:
        parser.error(f"{unknown[0]!r}: allowed are {', '.join(BENCHMARKS)}")
    figures: dict[str, Any] = {}
    codes = []
    for name in arguments.names or BENCHMARKS:
        print(f"\n== {name}", flush=True)
        codes.append(run(name, figures))
        write(figures, arguments.out)
    print(f"\n{arguments.out / 'bench.md'}")
    return next((code for code in codes if code), 0)


def run(name: str, figures: dict[str, Any]) -> int:
    """Run one benchmark, and add what it writes to the figures."""
    script = ROOT / "benchmarks" / name
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "figures.json")
        wanted = ["--json", str(told)] if '"--json"' in script.read_text(encoding="utf-8") else []
        code = subprocess.run([sys.executable, str(script), *wanted], check=False).returncode
        if told.is_file():
            figures[script.stem] = json.loads(told.read_text(encoding="utf-8"))
    return code


def write(figures: Mapping[str, Any], folder: Path) -> None:
    """Write the figures as data, as tables and as a picture of their growth."""
    sys.path.insert(0, str(ROOT))
    from benchmarks.targets import table
    from experiments.publish.described import git_sha
    from experiments.publish.files import write_text

    folder.mkdir(parents=True, exist_ok=True)
    machine = f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    document = {
        "git_sha": git_sha(),
        "date": date.today().isoformat(),
        "machine": machine,
        "command": " ".join(sys.argv[1:]),
        "figures": figures,
    }
    write_text(folder / "bench.json", json.dumps(document, indent=2) + "\n")
    made = f"Made at {document['git_sha']} on {document['date']}, on {machine}, by `make bench`."
    lines = ["# Benchmarks", "", made, "", *table(figures), ""]
    for name, found in figures.items():
        lines += [f"## {name}", "", "| figure | value |", "|---|---|"]
        lines += [f"| {what} | {value} |" for what, value in flat(found)] + [""]
    write_text(folder / "bench.md", "\n".join(lines))
    if growth := figures.get("bench_queries", {}).get("growth"):
        draw_growth(growth, folder / "growth.png")


def flat(figures: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every single figure by the names that lead to it; a list goes by what its rows measure."""
    if isinstance(figures, Mapping):
        for name, value in figures.items():
            yield from flat(value, f"{path}, {name}" if path else str(name))
    elif isinstance(figures, list):
        for i, value in enumerate(figures, start=1):
            yield from flat(value, f"{path} {i}")
    else:
        yield path, figures


def draw_growth(rows: list[dict[str, Any]], file: Path) -> None:
    """CPU seconds of a run and the memory that it holds by its number of queries, a line a policy."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    labels = {"cpu_s": "CPU seconds", "held_mb": "peak MB that no file holds"}
    for axes, (unit, label) in zip(figure.subplots(1, 2), labels.items(), strict=True):
        for policy in dict.fromkeys(row["policy"] for row in rows):
            mine = [row for row in rows if row["policy"] == policy]
            axes.plot([row["queries"] for row in mine], [row[unit] for row in mine], marker="o", label=policy)
        axes.set(xlabel="queries, 100 candidates each", ylabel=label, xlim=(0, None), ylim=(0, None))
        axes.grid(visible=True, color="0.93")
        axes.legend(frameon=False)
    figure.savefig(file, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    sys.exit(main())
