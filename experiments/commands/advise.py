"""Recommend a policy, a batch size and a number of documents per query for your data.

It takes the options of ragtune run that choose a collection, a first stage and a reranker:

    ragtune advise                                                      # the shipped collection
    ragtune advise dataset=beir dataset.path=DIR retriever=runs retriever.paths=DIR/bm25.run reranker.scores=DIR/ce.run
    ragtune advise dataset=beir dataset.path=DIR reranker=http reranker.dialect=tei \\
        reranker.url=http://localhost:8080 --max-queries 100
    ragtune advise --log queries.jsonl --endpoint http://localhost:8080 --dialect tei --max-docs 10000

--log reads requests of a rerank API: a line of JSON each, with query, documents and, if there are any, scores of the
first stage. It samples them, and --endpoint scores all candidates of the sample. Ask RAGtune's own server with
--dialect ragtune, so that its budget does not hold.

Recorded scores cost nothing. For a live reranker, the command shows the cost first, and scores every candidate once.
Scores are cached, so an interrupted command continues. Without judgments (dataset.split=null), quality is agreement
with full reranking, and a reranker whose scores do not agree with the first stage is advised against. Writes
advice.html and advice.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.commands import add_overrides
from experiments.commands._recorded import SCORES, check_data_options, name_of, recorded
from ragtune.cli.dispatch import refuse
from ragtune.core.arguments import check_choice, check_count, check_number
from ragtune.core.errors import ConfigError

KEPT = "what was scored is kept: repeat the command to go on"

TRAFFIC = 100_000

JUDGED_QUALITY, AGREEMENT_QUALITY = 0.95, 0.8
"""The share to be kept where none is named: of a measure by judgments, and of the full top 10."""

_LABELS = ("dataset.qrels", "dataset.split")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add_overrides(parser, "collection, first stage and reranker, as for ragtune run")
    parser.add_argument("--log", metavar="FILE", type=Path, help="requests of a rerank API in JSON lines")
    parser.add_argument("--endpoint", metavar="URL", help="with --log: the rerank server that scores them")
    parser.add_argument("--dialect", metavar="NAME", help="of the endpoint: ragtune, cohere (default), jina, tei, ...")
    parser.add_argument(
        "--max-docs",
        metavar="N",
        type=int,
        default=10_000,
        help="with --log: documents that the endpoint scores at most",
    )
    parser.add_argument("--prices", metavar="FILE", type=Path, help="YAML: usd_per_call, usd_per_doc, ms_per_doc, ...")
    parser.add_argument("--traffic", metavar="N", type=int, default=TRAFFIC, help="queries a month")
    parser.add_argument("--max-queries", metavar="N", type=int, help="use N random queries (seed=...) instead of all")
    parser.add_argument(
        "--quality", metavar="X", type=float, help="share of full quality to keep; default: 0.95, without judgments 0.8"
    )
    parser.add_argument("--unit", metavar="UNIT", help="cost unit: docs, usd or ms; default: usd if priced, else docs")
    parser.add_argument("--out", metavar="DIR", type=Path, help="output folder; default: results/advice/NAME")
    parser.add_argument("--jobs", metavar="N", type=int, default=-1, help="processes; -1: one per core")
    parser.add_argument("--yes", action="store_true", help="score with a live reranker without confirmation")


def run(arguments: argparse.Namespace) -> int:
    """Find the advice, write it and print it."""
    from experiments.advise.conclude import conclude
    from experiments.advise.options import CANDIDATES, TRUSTS
    from experiments.advise.replays import replay_all, require_queries
    from experiments.advise.write import print_advice, snippets, write_advice
    from experiments.config.compose import compose
    from experiments.label.plan import verdict_of
    from experiments.publish.described import git_sha
    from experiments.publish.folders import require_writable
    from experiments.publish.progress import progress_bar
    from experiments.publish.terminal import print_path
    from experiments.replay.build import load_dataset, session_for
    from experiments.report.prices import listed_services, prices_of, read_prices
    from experiments.report.study import file_stem
    from ragtune.core.policy.defaults import TRUST

    _check(arguments)
    named = {} if arguments.prices is None else read_prices(arguments.prices)
    overrides = _with_log(arguments)
    config = compose(overrides)
    if (labels := verdict_of(config)) is not None:  # they decide between two orders, and measure nothing
        overrides = [*(one for one in overrides if name_of(one) not in _LABELS), "dataset.split=null"]
        config = compose(overrides)
    if arguments.max_queries is not None:
        config["dataset"]["sample"] = {"queries": arguments.max_queries, "seed": config["seed"]}
    dataset = load_dataset(config)
    require_queries(len(dataset.judged), judged=bool(dataset.qrels))
    folder = arguments.out or Path("results", "advice", file_stem(dataset.name))
    require_writable(folder)
    scored = recorded(config, folder, named, yes=arguments.yes)
    scores = None if scored is config else folder / SCORES
    prices = prices_of(*_own_prices(config["reranker"], session_for(scored).rerankers["default"]), named)
    unit = arguments.unit
    if unit is not None and check_choice("--unit", unit, ("docs", "usd", "ms")) not in prices.priced:
        raise ConfigError(f"--unit {unit}: nothing has a price in it; --prices FILE gives one, e.g. {unit}_per_doc")
    with progress_bar("replaying policies", enabled=True) as update:
        # Labels that decide whether the reranker helps are better evidence than its agreement with the first stage.
        trusts = TRUSTS if labels is None or labels.decision.verdict == "undecided" else [TRUST]
        replays = replay_all(scored, scored["measures"][:1], arguments.jobs, update, CANDIDATES, trusts)
    default = JUDGED_QUALITY if replays.judged else AGREEMENT_QUALITY
    advice = conclude(
        replays,
        prices,
        listed_services(),
        labels=labels,
        quality=default if arguments.quality is None else arguments.quality,
        unit=unit or ("usd" if "usd" in prices.priced else "docs"),
        traffic=arguments.traffic,
        **scored["bootstrap"],
        seed=scored["seed"],
        command=arguments.command,
        git_sha=git_sha(),
    )
    replayed = _replayed(overrides, config["dataset"].get("sample"), scores)
    use = snippets(advice.recommended, config["reranker"], replayed, folder)
    advice = advice.model_copy(update={"use": use})
    write_advice(advice, folder)
    print_advice(advice)
    print_path(folder / "advice.html")
    return 0


def _own_prices(node: Mapping[str, Any], replayed: Any) -> list[Mapping[str, Any]]:
    """The prices of the score table, then of the reranker's own configuration. Both say 0 where none is known."""
    from experiments.report.prices import Prices

    table = {name: getattr(replayed, name, 0.0) for name in ("ms_per_doc", "ms_per_call", "usd_per_doc")}
    own = {name: node[name] for name in Prices.model_fields if isinstance(node.get(name), int | float)}
    return [{name: value for name, value in source.items() if value} for source in (table, own)]


def _with_log(arguments: argparse.Namespace) -> list[str]:
    """The overrides, behind those that replay a sample of the log and ask the endpoint."""
    from experiments.advise.querylog import FOLDER, write_sample
    from experiments.config.compose import compose
    from experiments.publish.folders import require_writable
    from experiments.report.study import file_stem

    if arguments.log is None:
        refuse(arguments, ["endpoint", "dialect"], "with --log only; without it reranker=http has options")
        return list(arguments.overrides)
    folder = arguments.out = arguments.out or Path("results", "advice", file_stem(arguments.log.stem))
    require_writable(folder)
    seed = compose([one for one in arguments.overrides if name_of(one) == "seed"])["seed"]
    sample = write_sample(arguments.log, folder / FOLDER, arguments.max_docs, seed)
    asked = ["reranker=http", f"reranker.url={arguments.endpoint}"] if arguments.endpoint else []
    dialect = [f"reranker.dialect={arguments.dialect}"] if arguments.dialect else []
    return [*sample, *asked, *dialect, *arguments.overrides]


def _check(arguments: argparse.Namespace) -> None:
    from experiments.advise.replays import ENOUGH

    check_data_options(arguments.overrides, "advise tries policies and budgets itself")
    check_count("--traffic", arguments.traffic, low=1)
    if arguments.max_queries is not None:
        check_count("--max-queries", arguments.max_queries, low=ENOUGH)
    if arguments.quality is not None and not 0.0 < check_number("--quality", arguments.quality) <= 1.0:
        raise ConfigError(f"--quality {arguments.quality}: allowed is a share above 0 and up to 1, e.g. 0.95")
    if arguments.jobs < 1 and arguments.jobs != -1:
        raise ConfigError(f"--jobs={arguments.jobs}: allowed is a whole number >= 1, or -1 for one a core")


def _replayed(overrides: Sequence[str], sample: Mapping[str, int] | None, scores: Path | None) -> list[str]:
    from experiments.prepare.score_table import of_scores

    replaced = ["dataset.sample"] * bool(sample) + ["reranker"] * bool(scores)
    kept = [one for one in overrides if not any(f"{name_of(one)}.".startswith(f"{name}.") for name in replaced)]
    drawn = [f"+dataset.sample.{name}={value}" for name, value in (sample or {}).items()]
    return [*kept, *drawn, *(of_scores(scores) if scores else [])]
