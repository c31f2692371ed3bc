"""Compare published figures of papers with what the code of today gives.

    ragtune reproduce                                     # the papers
    ragtune reproduce blitzrank                           # call counts need no data
    ragtune reproduce gar-bright --data ../shared/data    # quality needs recorded scores
    ragtune reproduce all --data ../shared/data --out results/reproduction

Each cell is equal, explained (the reason and the largest difference stand in the paper's file), different, or not
reproducible here. Files of papers are in conf/paper; a YAML file of your own works, too.

Exit codes: 0 if no cell is different, but for those that the file declares open; 1 otherwise; 2 bad input.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.reproduce.paper import Paper
    from experiments.reproduce.scoreboard import Reproduced


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("paper", nargs="?", metavar="PAPER", help="a paper, or all; without it the papers are listed")
    parser.add_argument("--data", type=Path, help="folder of the collections")
    parser.add_argument("--format", choices=("terminal", "markdown", "latex"), default="terminal", help="of the table")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="also write README.md and table.tex")


def run(arguments: argparse.Namespace) -> int:
    """Print the tables, and return whether a cell is different."""
    from experiments.publish.progress import progress_bar
    from experiments.reproduce.paper import load_paper, paper_names
    from experiments.reproduce.replays import Replays
    from experiments.reproduce.scoreboard import counts_of, reproduced
    from ragtune.core.errors import ConfigError

    if arguments.paper is None:
        for paper in map(load_paper, paper_names()):
            sys.stdout.write(f"{paper.name:<20}{len(paper.cells):>3} cells  {paper.title}\n")
        return 0
    if arguments.data and not arguments.data.is_dir():
        raise ConfigError(f"--data {arguments.data}: there is no such folder")
    papers = [load_paper(name) for name in (paper_names() if arguments.paper == "all" else [arguments.paper])]
    found = []
    with tempfile.TemporaryDirectory() as scratch, progress_bar("reproduce", enabled=True) as update:
        replays = Replays(arguments.data and arguments.data.absolute(), Path(scratch))
        for done, paper in enumerate(papers):
            update(done, len(papers))
            found.append((paper, list(reproduced(paper, replays))))
    rows = [row for _, each in found for row in each]
    counts = f"{len(rows)} cells of {len(papers)} papers: {counts_of(rows)}"
    _print(found, arguments.format)
    sys.stdout.write(f"{counts}\n")
    if arguments.out:
        _write(found, counts, arguments.command, arguments.out)
    return int(any(row.is_unexpected for row in rows))


def _print(found: Sequence[tuple[Paper, Sequence[Reproduced]]], form: str) -> None:
    from rich.markup import escape

    from experiments.publish.terminal import new_console, new_table
    from experiments.reproduce.scoreboard import COLUMNS, table_of

    for paper, rows in found:
        if form != "terminal":
            sys.stdout.write(_texts(paper, rows)[form])
            continue
        table = new_table(table_of(paper, rows).title)
        for column in COLUMNS:
            table.add_column(column, justify="right" if column in COLUMNS[1:4] else "left")
        for row in rows:
            table.add_row(*map(escape, row.row))
        new_console().print(table)


def _texts(paper: Paper, rows: Sequence[Reproduced]) -> dict[str, str]:
    from experiments.report.latex import latex_table
    from experiments.reproduce.scoreboard import table_of

    table, source = table_of(paper, rows), f"Published figures: {paper.source}"
    return {
        "markdown": f"{table.markdown}\n{source}\n\n",
        "latex": latex_table(table.title, table, source, "p{.4\\linewidth}rrrll"),
    }


def _write(found: Sequence[tuple[Paper, Sequence[Reproduced]]], counts: str, command: str, folder: Path) -> None:
    texts = [_texts(paper, rows) for paper, rows in found]
    head = f"# Published figures and ours\n\n{counts}.\n\nMade by `{command}`.\n\n"
    folder.mkdir(parents=True, exist_ok=True)
    files = {"README.md": ("markdown", head), "table.tex": ("latex", "")}
    for name, (form, before) in files.items():
        text = before + "\n".join(text[form].strip() + "\n" for text in texts)
        (folder / name).write_text(text, encoding="utf-8")
