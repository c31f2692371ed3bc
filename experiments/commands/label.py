r"""Find out with a few judgments whether your reranker helps.

It takes the options of ragtune advise. The command asks for grades of the documents that tell most about the difference
between the first stage's order and the reranker's. In the terminal, one key is one grade:

    ragtune label                                        # the shipped collection
    ragtune label --page                                 # in the browser, on this machine only
    ragtune label --csv sheet.csv                        # write rows to fill in; repeat it to read them
    ragtune label --llm 'local model=MODEL' --labels 40  # a model grades; its labels are marked
    ragtune label dataset=beir dataset.path=DIR dataset.split=null \
        retriever=runs retriever.paths=DIR/bm25.run reranker.scores=DIR/ce.run

Every label is saved at once: repeat the command to continue. Judgments of the collection are not used. Writes
labels.jsonl, qrels.tsv and decision.json into --out. ragtune advise dataset.qrels=OUT/qrels.tsv uses the decision.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.commands import add_overrides
from experiments.commands._recorded import check_data_options, recorded
from ragtune.core.arguments import check_count
from ragtune.core.errors import ConfigError

if TYPE_CHECKING:
    from experiments.label.desk import Desk

KEPT = "every label is kept: repeat the command to go on"

ROWS = 40
"""Rows of a sheet, or answers of a model, where --labels is not given."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add_overrides(parser, "collection, first stage and reranker, as for ragtune advise")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--page", action="store_true", help="grade in the browser, at the printed address")
    how.add_argument("--csv", metavar="FILE", type=Path, help="write a sheet to fill in, or read it if it is there")
    how.add_argument("--llm", metavar="'CHOICE NAME=VALUE ...'", help="a model of conf/llm grades until it is decided")
    parser.add_argument("--labels", metavar="N", type=int, help=f"labels at most; {ROWS} for --csv and --llm")
    parser.add_argument("--port", metavar="N", type=int, default=0, help="port of the page; 0: a free one")
    parser.add_argument("--out", metavar="DIR", type=Path, help="folder of the labels; default: results/labels/NAME")
    parser.add_argument("--yes", action="store_true", help="score with a live reranker without being asked")


def run(arguments: argparse.Namespace) -> int:
    """Ask for labels, keep them, and say what they decide."""
    from experiments.config.compose import compose
    from experiments.label.desk import Desk, Labels
    from experiments.label.plan import QRELS, SCOPE, both_orders, make_plan, orders_of
    from experiments.publish.folders import locked, require_writable
    from experiments.replay.build import load_dataset
    from experiments.report.study import file_stem

    check_data_options(arguments.overrides, "label compares two orders and tries no policy")
    if arguments.labels is not None:
        check_count("--labels", arguments.labels, low=1)
    config = compose(arguments.overrides)
    dataset = load_dataset(config)
    folder = arguments.out or Path("results", "labels", file_stem(dataset.name))
    require_writable(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, "--out"):
        orders = both_orders(recorded(config, folder, {}, yes=arguments.yes))
        plan = make_plan(orders, config["seed"])
        if not plan.pairs:
            raise ConfigError("the reranker leaves the top 10 of every query alone: there is nothing to decide")
        desk = Desk(dataset, plan, Labels(folder), orders_of(config))
        desk.write()
        try:
            _judge(desk, arguments)
        finally:
            desk.write()
        print(desk.verdict().text)
        print(SCOPE)
        print(f"{folder / QRELS}; next: ragtune advise with the same options and dataset.qrels={folder / QRELS}")
    return 0


def _judge(desk: Desk, arguments: argparse.Namespace) -> None:
    from experiments.label.ask import judge_by_model, judge_in_terminal, read_sheet, write_sheet
    from experiments.publish.progress import progress_bar

    file, rows = arguments.csv, arguments.labels or ROWS
    if arguments.page:
        _serve(desk, arguments.port)
    elif arguments.llm is not None:
        with progress_bar("judging", enabled=True) as update:
            name, failed = judge_by_model(desk, arguments.llm, rows, update)
        if failed:
            sys.stderr.write(f"warning: {name} gave no grade for {failed} documents; they are left out\n")
        print(f"{name} judged. A model's grades are not a person's: check some of them by hand.")
    elif file is None:
        judge_in_terminal(desk, arguments.labels)
    elif file.exists():
        graded, empty = read_sheet(desk, file)
        print(f"{file}: {graded} grades read, {empty} rows without one. For the next rows name another file.")
    else:
        written = write_sheet(desk, file, rows)
        print(f"{file}: {written} rows. Fill in the column grade (0 to 3), then repeat the command.")


def _serve(desk: Desk, port: int) -> None:
    from experiments.label.ask import HOST, serve_page

    with serve_page(desk, port) as server:
        print(f"http://{HOST}:{server.server_address[1]}/ (keys 0-3, s, u; Ctrl-C ends)", flush=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
