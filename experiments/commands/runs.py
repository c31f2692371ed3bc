"""List the runs in MLflow, find the best of each collection, compare two of them, draw curves.

    ragtune runs list --collection demo --sort nDCG@10 --limit 10
    ragtune runs list --policy uncertainty --tag retriever=bm25 --format csv
    ragtune runs best --each-budget
    ragtune runs diff 3f9c2a11 results/runs/LATER
    ragtune runs draw results/sweeps/LATER/*/

The store is the one that conf/tracking/mlflow.yaml names, or MLFLOW_TRACKING_URI. The command does not change it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.study.compare.store import TrackedRun


FORMATS = ("table", "csv", "json")
STATUS = ("finished", "failed", "running", "killed")
_FILTERS = ("collection", "policy", "budget")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    what = parser.add_subparsers(dest="what", required=True, metavar="list|best|diff|draw")
    listed = what.add_parser("list", help="the runs, the newest first", description="The runs, the newest first.")
    _add_filters(listed)
    listed.add_argument("--status", choices=STATUS, help="only runs with this status")
    listed.add_argument("--sweeps", action="store_true", help="list sweeps, each with its number of jobs")
    listed.add_argument("--sort", metavar="MEASURE", default="created", help="a measure, docs or created")
    listed.add_argument("--limit", type=int, metavar="N", help="the most rows")
    best = what.add_parser(
        "best",
        help="the best finished run of each collection",
        description="The best finished run of each collection; ties go to fewer documents, then to the older run.",
    )
    _add_filters(best)
    best.add_argument("--measure", help="the measure to compare by; default: the headline")
    best.add_argument("--each-budget", action="store_true", help="the best under each budget")
    best.add_argument("--oracles", action="store_true", help="include policies that know scores or judgments")
    diff = what.add_parser(
        "diff",
        help="what differs between two runs",
        description="Choices, data and code that differ, and measures with paired differences (B less A), their "
        "bootstrap intervals and p-values of Fisher's randomization test, on the judged queries that both have.",
    )
    diff.add_argument("runs", nargs=2, metavar="RUN", help="id, the beginning of an id, a run's name, or a folder")
    draw = what.add_parser(
        "draw",
        help="draw the curves of runs in folders",
        description="Draws curve.png in folders of runs that have none yet, as the jobs of a sweep without tracking.",
    )
    draw.add_argument("folders", nargs="+", metavar="FOLDER", type=Path, help="folder of a run")
    for each in (listed, best, diff):
        each.add_argument("--format", choices=FORMATS, default="table", help="output format")


def _add_filters(parser: argparse.ArgumentParser) -> None:
    for name in _FILTERS:
        parser.add_argument(f"--{name}", metavar="NAME", help=f"only this {name}; * and ? are wildcards")
    parser.add_argument("--tag", metavar="KEY=VALUE", action="append", default=[], help="this tag only; repeatable")


def run(arguments: argparse.Namespace) -> int:
    """Read the store and print what was asked for."""
    does: dict[str, Callable[[argparse.Namespace], None]] = {
        "list": _list,
        "best": _best,
        "diff": _diff,
        "draw": _draw,
    }
    does[arguments.what](arguments)
    return 0


def _list(arguments: argparse.Namespace) -> None:
    from experiments.study.compare.printed import print_runs, print_sweeps
    from experiments.study.compare.store import measure_of, tracked_runs
    from ragtune.core.arguments import check_count

    if arguments.limit is not None:
        check_count("--limit", arguments.limit, 1)
    everything = tracked_runs()
    if arguments.sweeps:
        jobs = [run.parent for run in everything]
        sweeps = [(run, jobs.count(run.run_id)) for run in everything if run.is_sweep]
        print_sweeps(sweeps[: arguments.limit], arguments.format)
        return
    runs = [run for run in _filtered(everything, arguments) if arguments.status in (None, run.status)]
    by = arguments.sort
    if by == "docs":
        runs.sort(key=lambda run: (run.docs is None, run.docs or 0.0))
    elif by != "created":
        by = measure_of(by, everything)
        runs.sort(key=lambda run: (by not in run.measures, -run.measures.get(by, 0.0)))
    print_runs(runs[: arguments.limit], arguments.format)
    if arguments.format == "table" and len(runs) > (arguments.limit or len(runs)):
        sys.stderr.write(f"{len(runs) - arguments.limit} more: raise --limit\n")


def _best(arguments: argparse.Namespace) -> None:
    from experiments.study.compare.printed import print_best
    from experiments.study.compare.store import best_runs, measure_of, tracked_runs

    runs = _filtered(tracked_runs(), arguments)
    measure = arguments.measure and measure_of(arguments.measure, runs)
    counted = [run for run in runs if arguments.oracles or not run.has_oracle]
    print_best(best_runs(counted, measure, each_budget=arguments.each_budget), arguments.format)
    if arguments.format == "table" and len(counted) < len(runs):
        sys.stderr.write(f"without {len(runs) - len(counted)} runs of oracles: --oracles counts them too\n")


def _filtered(everything: Sequence[TrackedRun], arguments: argparse.Namespace) -> list[TrackedRun]:
    """The runs, without sweeps, that the filters let through.

    Raises:
        ConfigError: if nothing that is tracked has a value that was asked for.
    """
    from ragtune.core.errors import ConfigError

    runs = [run for run in everything if not run.is_sweep]
    found = runs
    for name in _FILTERS:
        if wanted := getattr(arguments, name):
            known = sorted({getattr(run, name) for run in runs} - {""})
            if not any(_is(value, wanted) for value in known):
                raise ConfigError(f"--{name} {wanted!r}: no run has it; the runs have {', '.join(known) or 'none'}")
            found = [run for run in found if _is(getattr(run, name), wanted)]
    for text in arguments.tag:
        key, separator, wanted = text.partition("=")
        if not key or not separator:
            raise ConfigError(f"--tag {text!r}: allowed is KEY=VALUE, e.g. retriever=bm25")
        found = [run for run in found if fnmatchcase(run.tags.get(key, ""), wanted)]
    return found


def _is(value: str, wanted: str) -> bool:
    """Whether a name is the one that is wanted; a collection's is known by its part before the slash, too."""
    return fnmatchcase(value, wanted) or value.partition("/")[0] == wanted


def _diff(arguments: argparse.Namespace) -> None:
    from experiments.study.compare.difference import difference
    from experiments.study.compare.printed import print_difference
    from experiments.study.compare.run_folder import find_runs
    from experiments.study.compare.store import find_run, tracked_runs

    tracked = [] if all(Path(text).is_dir() for text in arguments.runs) else tracked_runs()
    texts = [text if Path(text).is_dir() else find_run(text, tracked).run_id for text in arguments.runs]
    with tempfile.TemporaryDirectory() as downloads:
        a, b = find_runs(texts, Path(downloads))
        found = difference(a, b)
    print_difference(found, (a.name, b.name), arguments.format)


def _draw(arguments: argparse.Namespace) -> None:
    from experiments.publish.files import CURVE, picture_of
    from experiments.study.compare.run_folder import reading

    for folder in arguments.folders:
        with reading(folder / CURVE):
            sys.stdout.write(f"{picture_of(folder)}\n")
