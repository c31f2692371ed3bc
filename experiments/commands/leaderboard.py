"""Rank policies, those of installed packages included, by quality against cost.

    ragtune leaderboard run mine                              # on the shipped collection
    ragtune leaderboard run mine --data ../shared/data        # on every known collection of a folder
    ragtune leaderboard show results/leaderboard

run replays a policy under fixed budgets in documents, calls and tokens, and writes its record. A policy is a preset of
RAGtune or an entry point of the group ragtune.policies. Without a name, run replays all presets of the board.
show prints the ranks as Markdown, and writes index.html, which sorts and filters without a server.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

KEPT = "finished cells of presets are kept: repeat the command to go on"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    actions = parser.add_subparsers(dest="action", required=True)
    run_parser = actions.add_parser("run", help="replay policies and write their records")
    run_parser.add_argument("policies", nargs="*", metavar="POLICY", help="names; default: all presets of the board")
    run_parser.add_argument("--data", help="folder of the collections; default: the shipped collection")
    run_parser.add_argument("--out", type=Path, help="folder of the records; default: results/leaderboard[-demo]")
    run_parser.add_argument("--date", help="goes into the records, e.g. 2026-11-28")
    run_parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="changes to the configuration")
    show_parser = actions.add_parser("show", help="print the ranks and write index.html")
    show_parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder of the records")


def run(arguments: argparse.Namespace) -> int:
    """Write records, or show them."""
    if arguments.action == "show":
        from experiments.leaderboard.board import read_board
        from experiments.leaderboard.page import markdown, write_page

        board = read_board(arguments.folder)
        sys.stdout.write(markdown(board))
        sys.stdout.write(f"\n{write_page(board, arguments.folder)}\n")
        return 0
    from experiments.leaderboard.record import Recorder
    from experiments.leaderboard.tracks import REFERENCE
    from experiments.publish.progress import progress_bar

    folder = arguments.out or Path("results", "leaderboard" if arguments.data else "leaderboard-demo")
    recorder = Recorder(folder, arguments.data, arguments.set, arguments.date)
    names = list(dict.fromkeys(arguments.policies or recorder.presets))
    if not (folder / f"{REFERENCE}.json").is_file() and REFERENCE not in names:
        names.insert(0, REFERENCE)
    with progress_bar("leaderboard", enabled=True) as update:
        for file in recorder.write(names, update):
            sys.stdout.write(f"{file}\n")
    return 0
