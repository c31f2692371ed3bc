"""Rank policies, those of installed packages included, by quality against cost.

    ragtune leaderboard run halves                              # on the shipped collection
    ragtune leaderboard run halves gar --data ../shared/data    # on the known collections of a folder
    ragtune leaderboard show results/leaderboard

"run" replays policies under fixed budgets in documents, calls and tokens, and writes a record of each. A policy is a
preset of RAGtune or an entry point of the group ragtune.policies. Without a name, it replays all presets of the board.
"show" prints the ranks as Markdown, and writes index.html, which sorts and filters without a server.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from ragtune.core.errors import ConfigError

KEPT = "finished cells of presets are kept: repeat the command to go on"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument(
        "action",
        metavar="run|show",
        choices=("run", "show"),
        help="write records of policies, or rank those of a folder",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="policies, or a folder; KEY=VALUE changes the configuration"
    )
    parser.add_argument("--data", help="folder of the collections; default: the shipped collection")
    parser.add_argument("--out", type=Path, help="folder of the records; default: results/leaderboard[-demo]")
    parser.add_argument("--date", metavar="YYYY-MM-DD", help="goes into the records")


def run(arguments: argparse.Namespace) -> int:
    """Write records, or show them."""
    from experiments.leaderboard.board import show
    from experiments.leaderboard.record import REFERENCE, Recorder
    from experiments.publish.progress import progress_bar

    if arguments.action == "show":
        if len(arguments.names) != 1:
            raise ConfigError("ragtune leaderboard show takes one folder with records")
        sys.stdout.write(f"{show(Path(arguments.names[0]))}\n")
        return 0
    if arguments.date is not None and not re.fullmatch(r"\d{4}-\d\d-\d\d", arguments.date):
        raise ConfigError(f"--date {arguments.date}: allowed is a day such as 2026-11-28")
    folder = arguments.out or Path("results", "leaderboard" if arguments.data else "leaderboard-demo")
    options = [word for word in arguments.names if "=" in word]
    recorder = Recorder(folder, arguments.data, options, arguments.date)
    names = list(dict.fromkeys(word for word in arguments.names if word not in options)) or list(recorder.presets)
    if REFERENCE not in names and not (folder / f"{REFERENCE}.json").is_file():
        names = [REFERENCE, *names]
    with progress_bar("leaderboard", enabled=True) as update:
        for file in recorder.write(names, update):
            sys.stdout.write(f"{file}\n")
    return 0
