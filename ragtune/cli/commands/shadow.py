"""Report what a budget loses and saves on your own requests.

``ragtune serve --shadow`` has reranked them in full as well, and ``--shadow-file`` has kept the figures.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ragtune.services.shadow import FIGURES, ShadowRecord, figures, read_records

_FORMS = {"saved_docs": "{:.1f}", "saved_tokens": "{:.0f}", "saved_ms": "{:.1f}", "saved_usd": "{:.6f}"}

_NOTE = """The loss is by the model's own scores: where the model does harm, it can be a gain.
Intervals are 95%, of the mean over requests (Student's t)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("action", choices=("report",), help="print the report")
    parser.add_argument("file", metavar="FILE", type=Path, help="the file of --shadow-file")


def run(arguments: argparse.Namespace) -> int:
    """Print a table for each model, policy and budget in the file, since no mean over several says anything of one."""
    records, unread = read_records(arguments.file)
    groups: dict[tuple[object, ...], list[ShadowRecord]] = {}
    for one in records:
        groups.setdefault((one.model, one.policy, *sorted(one.budget.items())), []).append(one)
    for group in groups.values():
        sys.stdout.write("\n".join(_table(group)) + "\n\n")
    sys.stdout.write(f"{_NOTE}\n")
    if unread:
        sys.stderr.write(f"ragtune: {unread} lines of {arguments.file} are no records and are left out\n")
    return 0


def _table(group: Sequence[ShadowRecord]) -> Iterator[str]:
    first, last, found = group[0], group[-1], figures(group)
    limits = ", ".join(f"{unit} {limit:g}" for unit, limit in first.budget.items())
    yield f"{first.model}, {first.policy}, {limits}: {len(group)} requests, {first.at[:10]} to {last.at[:10]}"
    read, candidates = sum(one.reranked for one in group), sum(one.documents for one in group)
    yield f"  {'documents read':<36}{read / len(group):.1f} of {candidates / len(group):.1f} a request"
    for measure, words in FIGURES.items():
        mean, low, high = found[measure]
        form = _FORMS.get(measure, "{:.3f}")
        bounds = f"  [{form.format(low)}, {form.format(high)}]" if len(group) > 1 else ""
        if measure != "saved_usd" or mean:
            yield f"  {words:<36}{form.format(mean)}{bounds}"
