"""Report the loss and saving of a budget, from requests that ``ragtune serve --shadow`` also reranked in full."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragtune.services.shadow_records import Interval, ShadowRecord


_ROWS = (
    ("overlap", "overlap of the top 10", "{:.3f}"),
    ("rbo", "rank-biased overlap of the top 10", "{:.3f}"),
    ("quality_loss", "estimated loss of nDCG@10", "{:.3f}"),
    ("saved_docs", "documents saved a request", "{:.1f}"),
    ("saved_tokens", "tokens saved a request", "{:.0f}"),
    ("saved_ms", "milliseconds saved a request", "{:.1f}"),
    ("saved_usd", "dollars saved a request", "{:.6f}"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("action", choices=("report",), help="print the report")
    parser.add_argument("file", metavar="FILE", type=Path, help="the file of --shadow-file")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print a table for each model, policy and budget in the file.

    Raises:
        InputError: if the file cannot be read, or holds something else.
    """
    from ragtune.services.shadow_records import figures, grouped, read_records

    records, cut = read_records(arguments.file)
    groups = [(group, figures(group)) for group in grouped(records)]
    if arguments.json:
        sys.stdout.write(json.dumps([_as_json(*group) for group in groups], indent=1) + "\n")
    else:
        sys.stdout.write("\n\n".join("\n".join(_table(*group)) for group in groups) + f"\n\n{_NOTE}\n")
    if cut:
        sys.stderr.write(f"ragtune: {cut} lines of {arguments.file} were cut short and are left out\n")
    return 0


_NOTE = """The loss is by the model's own scores: where the model does harm, it can be a gain.
Intervals are 95%, of the mean over requests (Student's t)."""


def _table(group: Sequence[ShadowRecord], found: dict[str, Interval]) -> Iterator[str]:
    first, last = group[0], group[-1]
    limits = ", ".join(f"{unit} {limit:g}" for unit, limit in first.budget.items())
    yield f"{first.model}, {first.policy}, {limits}: {len(group)} requests, {first.at[:10]} to {last.at[:10]}"
    read, candidates = sum(one.reranked for one in group), sum(one.documents for one in group)
    yield f"  {'documents read':<36}{read / len(group):.1f} of {candidates / len(group):.1f} a request"
    for measure, words, form in _ROWS:
        mean, low, high = found[measure]
        bounds = "" if low != low else f"  [{form.format(low)}, {form.format(high)}]"
        if measure != "saved_usd" or mean:
            yield f"  {words:<36}{form.format(mean)}{bounds}"


def _as_json(group: Sequence[ShadowRecord], found: dict[str, Interval]) -> dict[str, object]:
    first = group[0]
    told = {
        measure: {name: None if value != value else value for name, value in figure._asdict().items()}
        for measure, figure in found.items()
    }
    return {
        "model": first.model,
        "policy": first.policy,
        "budget": dict(first.budget),
        "requests": len(group),
        "documents": sum(one.documents for one in group),
        "reranked": sum(one.reranked for one in group),
    } | told
