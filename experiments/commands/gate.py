"""Let a finished run replace another only if it loses at most so much and costs no more.

A check for continuous integration, from the files of two runs:

    ragtune gate BASE CANDIDATE --measure nDCG@10 --max-loss 0.005 --unit docs

Exit codes: 0 fine, 1 worse (or a failure, with an error), 2 cannot tell from these queries, 64 bad input (with an
error, and no JUnit XML).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from ragtune.core.arguments import check_number
from ragtune.core.units import BY_SHORT

BAD_INPUT = 64  # EX_USAGE of sysexits: 2 is a verdict


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("base", metavar="BASE", help="run that is in use: a folder or an MLflow run id")
    parser.add_argument("candidate", metavar="CANDIDATE", help="run that may replace it, of the same queries")
    parser.add_argument("--measure", default="nDCG@10", help="of quality")
    parser.add_argument("--max-loss", type=float, default=0.005, help="allowed loss of its mean")
    parser.add_argument("--unit", choices=BY_SHORT, default="docs", help="of cost")
    parser.add_argument("--max-rise", type=float, default=0.0, help="allowed rise of the mean cost, a share")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="also write JUnit XML")


def run(arguments: argparse.Namespace) -> int:
    """Print one line, and return the verdict as exit code."""
    from experiments.compare.gate import WORDS, findings, verdict, write_junit
    from experiments.compare.runs import find_runs, reservations

    max_loss = check_number("--max-loss", arguments.max_loss, low=0.0)
    max_rise = check_number("--max-rise", arguments.max_rise, low=0.0)
    with tempfile.TemporaryDirectory() as downloads:
        base, candidate = find_runs([arguments.base, arguments.candidate], Path(downloads))
        found = findings(base, candidate, arguments.measure, max_loss, BY_SHORT[arguments.unit], max_rise)
        sys.stderr.writelines(f"warning: {reservation}\n" for reservation in reservations([base, candidate]))
    code = verdict(found)
    if arguments.junit:
        write_junit(found, f"{base.name}.{candidate.name}", arguments.junit)
    reasons = sorted(found, key=lambda finding: finding.code != code)  # what decides is said first
    print(f"{WORDS[code]}: {' '.join(finding.why for finding in reasons)}")
    return code
