"""Compare published figures of papers with what the code of today gives.

    ragtune reproduce                                     # the papers
    ragtune reproduce blitzrank                           # call counts need no data
    ragtune reproduce gar_bright --data ../shared/data    # quality needs recorded scores
    ragtune reproduce all --data ../shared/data --out results/reproduction

Each cell is equal, explained (the paper's file has the reason and the largest difference that it explains), different,
or not reproducible here. The files of papers are in conf/paper; a YAML file of your own works, too.

Exit codes: 0 if no cell is different, except those that the file declares different; 1 otherwise; 2 bad input.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("paper", nargs="?", metavar="PAPER", help="a paper, or all; without it the papers are listed")
    parser.add_argument("--data", type=Path, help="folder of the collections")
    parser.add_argument("--format", choices=("terminal", "markdown", "latex"), default="terminal", help="of the table")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="also write README.md and table.tex")


def run(arguments: argparse.Namespace) -> int:
    """Print the tables, and return whether a cell is unexpectedly different."""
    from rich.markdown import Markdown

    from experiments.publish.progress import progress_bar
    from experiments.publish.terminal import new_console
    from experiments.report.latex import latex_table
    from experiments.report.markdown import Table
    from experiments.reproduce.paper import ReproductionVerdict, load_paper, paper_names
    from experiments.reproduce.reproduced import COLUMNS, reproduced
    from ragtune.core.errors import ConfigError

    if arguments.paper is None:
        for paper in map(load_paper, paper_names()):
            sys.stdout.write(f"{paper.name:<20}{len(paper.cells):>3} cells  {paper.title}\n")
        return 0
    if arguments.data is not None and not arguments.data.is_dir():
        raise ConfigError(f"--data {str(arguments.data)!r} is no folder")
    papers = [load_paper(name) for name in (paper_names() if arguments.paper == "all" else [arguments.paper])]
    cells = [(paper, cell) for paper in papers for cell in paper.cells]
    rows = []
    with tempfile.TemporaryDirectory() as scratch, progress_bar("reproduce", enabled=True) as update:
        for done, (paper, cell) in enumerate(cells):
            update(done, len(cells))
            rows.append(reproduced(paper, cell, arguments.data, Path(scratch)))
    texts = {"markdown": "", "latex": ""}
    for paper in papers:
        title = f"{paper.title} (arXiv {paper.arxiv})" if paper.arxiv else paper.title
        lines = [row.row for row, (of, _) in zip(rows, cells, strict=True) if of is paper]
        table, source = Table(title, COLUMNS, lines), f"Published figures: {paper.source}."
        texts["markdown"] += f"{table.markdown}\n{source}\n\n"
        texts["latex"] += latex_table(title, table, source, r"p{.25\linewidth}*{2}{p{.12\linewidth}}rlp{.2\linewidth}")
        if arguments.format == "terminal":
            new_console().print(Markdown(table.markdown))
    counts = [f"{sum(row.verdict is verdict for row in rows)} {verdict}" for verdict in ReproductionVerdict]
    summary = f"{len(rows)} cells of {len(papers)} papers: {', '.join(counts)}"
    sys.stdout.write(texts.get(arguments.format, ""))
    sys.stderr.write(f"{summary}\n")
    if arguments.out:
        head = f"# Published figures and ours\n\nMade by `{arguments.command}`: {summary}.\n\n"
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "README.md").write_text(head + texts["markdown"].rstrip() + "\n", encoding="utf-8")
        (arguments.out / "table.tex").write_text(texts["latex"], encoding="utf-8")
    return int(any(row.is_unexpected for row in rows))
