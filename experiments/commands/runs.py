"""Draw the curves of finished runs.

    ragtune runs draw results/sweeps/LATER/*/

Draws curve.png in folders of runs that have none yet, as the jobs of a sweep without tracking.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    what = parser.add_subparsers(dest="what", required=True, metavar="draw")
    draw = what.add_parser("draw", help="draw the curves of runs in folders")
    draw.add_argument("folders", nargs="+", metavar="FOLDER", type=Path, help="folder of a run")


def run(arguments: argparse.Namespace) -> int:
    """Draw the curves and print their files."""
    from experiments.compare.run_folder import reading
    from experiments.publish.files import CURVE, picture_of

    for folder in arguments.folders:
        with reading(folder / CURVE):
            sys.stdout.write(f"{picture_of(folder)}\n")
    return 0
