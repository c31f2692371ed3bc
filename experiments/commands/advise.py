"""Where the reranking budget should go, for your data: which policy, batches of what size, how many documents a query.

Options are those of ragtune run that choose a collection, a first stage and a reranker:

    ragtune advise                                                      # the shipped collection
    ragtune advise dataset=beir dataset.path=DIR retriever=runs retriever.paths=DIR/bm25.run reranker.scores=DIR/ce.run
    ragtune advise dataset=beir dataset.path=DIR reranker=http reranker.url=http://localhost:8080 --max-queries 100

Recorded scores cost nothing. A live reranker scores every candidate once, after what that costs was said, and scores
are kept, so an interrupted command goes on where it was. Without judgments (dataset.split=null), quality is agreement
with reranking everything. Writes advice.html, advice.json and experiment/advice.yaml, which ragtune run takes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.commands._overrides import add_overrides
from ragtune.core.errors import ConfigError

NAME = "advise"
SUMMARY = "say where your reranking budget should go"
KEPT = "what was scored is kept: repeat the command to go on"

TRAFFIC = 100_000
SCORES = "scores.parquet"
_OF_THE_DATA = ("dataset", "retriever", "signal", "fusion", "retrieval", "reranker", "seed", "measures", "bootstrap")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add_overrides(parser, "collection, first stage and reranker, as for ragtune run")
    parser.add_argument("--prices", metavar="FILE", type=Path, help="YAML: usd_per_call, usd_per_doc, ms_per_doc, ...")
    parser.add_argument("--traffic", metavar="N", type=int, default=TRAFFIC, help="queries a month")
    parser.add_argument("--max-queries", metavar="N", type=int, help="so many at random (seed=...), not all of them")
    parser.add_argument(
        "--quality", metavar="X", type=float, help="share of full quality to keep; 0.95, 0.8 without judgments"
    )
    parser.add_argument("--unit", metavar="UNIT", help="what cheap means: docs, usd or ms; usd if priced, else docs")
    parser.add_argument("--out", metavar="DIR", type=Path, help="where it is written; results/advice/NAME if unsaid")
    parser.add_argument("--jobs", metavar="N", type=int, default=-1, help="processes; -1: one a core")
    parser.add_argument("--yes", action="store_true", help="score with a live reranker without being asked")


def run(arguments: argparse.Namespace) -> int:
    """Find the advice, write it and print it.

    Raises:
        InputError: on input that cannot be used, before anything is scored or written.
    """
    from experiments.config.compose import compose
    from experiments.publish.progress import progress_bar
    from experiments.publish.terminal import print_path
    from experiments.replay.build import load_dataset
    from experiments.study.advise.prices import read_prices
    from experiments.study.advise.run import run_advice
    from experiments.study.advise.terminal import print_advice
    from experiments.study.advise.write import write_advice
    from experiments.study.study import file_stem
    from experiments.study.write import require_writable

    _check(arguments)
    prices = {} if arguments.prices is None else read_prices(arguments.prices)
    config = compose(arguments.overrides)
    if arguments.max_queries is not None:
        config["dataset"]["sample"] = {"queries": arguments.max_queries, "seed": config["seed"]}
    folder = arguments.out or Path("results", "advice", file_stem(load_dataset(config).name))
    require_writable(folder)
    recorded = _recorded(config, folder, prices, yes=arguments.yes)
    scores = None if recorded is config else folder / SCORES
    with progress_bar("replaying policies", enabled=True) as update:
        advice = run_advice(
            config,
            recorded,
            overrides=_replayed(arguments.overrides, config["dataset"].get("sample"), scores),
            prices=prices,
            quality=arguments.quality,
            unit=arguments.unit,
            traffic=arguments.traffic,
            folder=folder,
            processes=arguments.jobs,
            command=arguments.command,
            progress=update,
        )
    write_advice(advice, folder)
    print_advice(advice)
    print_path(folder / "advice.html")
    return 0


def _check(arguments: argparse.Namespace) -> None:
    from ragtune.core.arguments import check_count, check_number

    for override in arguments.overrides:
        if _name(override).partition(".")[0] not in _OF_THE_DATA:
            raise ConfigError(
                f"{override!r}: allowed are options of {', '.join(_OF_THE_DATA)}; advise tries policies and budgets "
                "itself"
            )
    check_count("--traffic", arguments.traffic, low=1)
    if arguments.max_queries is not None:
        check_count("--max-queries", arguments.max_queries, low=2)
    if arguments.quality is not None and not 0.0 < check_number("--quality", arguments.quality) <= 1.0:
        raise ConfigError(f"--quality {arguments.quality}: allowed is a share above 0 and up to 1, e.g. 0.95")
    if arguments.jobs != -1:
        check_count("--jobs", arguments.jobs, low=1)


def _recorded(config: dict[str, Any], folder: Path, prices: dict[str, float], *, yes: bool) -> dict[str, Any]:
    """The configuration with recorded scores: its own, or those that its live reranker gives now."""
    from experiments.prepare.live_scores import costs_of_scoring, spends_money, with_scores
    from experiments.publish.progress import progress_bar
    from experiments.publish.terminal import print_forecast
    from experiments.replay.build import build_session
    from experiments.study.advise.prices import prices_of

    if build_session(config).rerankers["default"].is_recorded:
        return config
    with progress_bar("forecasting", enabled=True) as update:
        figures = costs_of_scoring(config, update)
    if any(name.startswith("usd_") for name in prices):
        figures = prices_of(prices).on_forecast(figures)
    print_forecast(figures)
    if spends_money(config, figures) and not yes:
        _ask()
    return with_scores(config, folder / SCORES)


def _replayed(overrides: Sequence[str], sample: Mapping[str, int] | None, scores: Path | None) -> list[str]:
    """The overrides that replay what was looked at: the same queries, and the scores that were given."""
    from experiments.prepare.live_scores import of_scores

    replaced = ["dataset.sample"] * bool(sample) + ["reranker"] * bool(scores)
    kept = [one for one in overrides if not any(f"{_name(one)}.".startswith(f"{name}.") for name in replaced)]
    drawn = [f"+dataset.sample.{name}={value}" for name, value in (sample or {}).items()]
    return [*kept, *drawn, *(of_scores(scores) if scores else [])]


def _name(override: str) -> str:
    """What an override sets, e.g. ``dataset.path``."""
    return override.partition("=")[0].lstrip("+~").rpartition("@")[2]


def _ask() -> None:
    """Have a person agree to the expense.

    Raises:
        ConfigError: if the person does not, or there is none.
    """
    if not sys.stdin.isatty():
        raise ConfigError("scoring may cost money, as told above: repeat the command with --yes, or on a terminal")
    sys.stderr.write("Score every candidate once? What is scored already is not paid for again. [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfigError("nothing was scored")
