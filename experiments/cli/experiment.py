"""One experiment, from configuration to files."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from experiments.config.compose import Jobs, later_budgets
from experiments.config.options import RunConfig, leaf, policy_name
from experiments.conformance.golden import conformance_of
from experiments.datasets.dataset import Dataset
from experiments.evaluate.baselines import Evaluation, by_agreement, compare, in_full
from experiments.evaluate.curves import curve
from experiments.evaluate.significance import Bootstrap
from experiments.evaluate.summary import Summary, Trust, summarize
from experiments.publish.described import git_sha
from experiments.publish.files import Results, per_query_table, read_summary, write_results, write_summary, write_text
from experiments.publish.progress import library_progress, progress_bar
from experiments.publish.terminal import print_path, print_queries, print_run, print_warning
from experiments.publish.track import TRACKING_ERROR, Tracking, parent_of
from experiments.replay.build import HEAD, TAIL, Session, load_measures, session_for
from experiments.replay.component import component
from experiments.replay.executors import Executor
from experiments.replay.inputs import identity, require_same
from experiments.replay.journal import Journal
from experiments.replay.records import baselines_of, is_fixed_depth, replay
from ragtune import __version__
from ragtune.core.arguments import check_number
from ragtune.core.errors import DatasetError, FailedRunError
from ragtune.core.plain import first_line
from ragtune.core.types import POLICY_FAILED
from ragtune.core.units import ENERGY, FLOPS, MONEY, SEARCH_UNITS, TIME


def run_experiment(
    config: Mapping[str, Any], folder: Path, overrides: list[str], *, sweep: Jobs | None = None
) -> float:
    """Replay a collection, measure the results, and write, track and print them."""
    tracking: Tracking = component(config, "tracking")
    verbosity = config["verbosity"]
    done = _finished(config, folder) if config["resume"] else None
    if done is not None:
        sys.stderr.write("nothing to do: this run is complete\n")
        if done.mlflow_run_id is None:
            _track(tracking, folder, done)
        print_path(folder)
        return done.headline
    results = _produce(config, folder, overrides, progress=verbosity > 0, sweep=sweep)
    _track(tracking, folder, results.summary)
    _report(results, folder, verbosity if sweep is None or verbosity > 1 else 0)
    _fail_if_failed(results.summary, folder)
    return results.summary.headline


def _finished(config: Mapping[str, Any], folder: Path) -> Summary | None:
    """The summary of this very run if it is complete; None if it is not, or if a later one was begun here."""
    if (folder / Journal.NAME).exists():
        return None
    try:
        summary = read_summary(folder)
    except DatasetError as error:
        raise DatasetError(f"{error}; without that file, resume=true starts over") from None
    if summary is None:
        return None
    require_same(identity(config), summary.plain(), f"{str(folder)!r} holds the results of")
    return summary


def _produce(
    config: Mapping[str, Any], folder: Path, overrides: list[str], *, progress: bool, sweep: Jobs | None
) -> Results:
    started = time.perf_counter()
    executor: Executor = component(config, "executor")
    run = identity(config)  # before the files are read, so that resuming notices a change in between
    later = None
    if sweep is not None and executor.is_here:
        later = later_budgets(component(config, "budget"), overrides, sweep)
    config = RunConfig(config, sha256(json.dumps(run["inputs"]).encode()).hexdigest(), later)
    with library_progress(enabled=progress):
        session = session_for(config)
    session.controller.forget_failures()
    begun, paid = run, {}
    if (first := session.first_pass) is not None:  # it is paid once, and not by each worker again
        config = config.replaced(estimator={**config["estimator"], "trust": first.correlation.trust})
        begun, paid = {**run, "trust": first.correlation.trust}, {"beforehand": (first.charged, first.actual)}
    dataset, beaten = session.dataset, baselines_of(config, session)
    if dataset.qrels:
        measures = load_measures(config)
    else:
        dataset, measures = by_agreement(dataset, in_full(beaten, dataset.judged))
    allowed = check_number("failures.max_share", config["failures"]["max_share"], 0.0, 1.0)
    folder.mkdir(parents=True, exist_ok=True)
    evaluation = Evaluation(dataset, measures, beaten, folder, fixed_depth=is_fixed_depth(session))
    with Journal(folder, begun, resume=config["resume"]) as journal:
        with progress_bar(f"replaying {dataset.name}", enabled=progress) as update:
            replay(executor, config, dataset.query_ids, journal, update, evaluation.add)
        bootstrap = Bootstrap(**config["bootstrap"], seed=config["seed"])
        drawn = curve(evaluation.steps(), measures.names, bootstrap, folder)
        against = compare(drawn, evaluation.compared(), bootstrap)
        outcomes, apart = evaluation.outcomes(), session.compares_apart
        figures = summarize(dataset, outcomes, drawn, max_failed_share=allowed, compares_apart=apart, **paid)
        summary = Summary(
            **dict(figures),
            baselines=against or None,
            trust=_trust(session),
            policy=policy_name(config),
            **provenance(config, overrides, dataset),
            **run,
            wall_s=round(time.perf_counter() - started, 3),
            mlflow_run_id=None,
        )
        line = evaluation.depth_line(drawn)
        results = Results(config, dataset, journal.finished, outcomes, drawn, summary, line)
        write_results(folder, results, picture=sweep is None)
        if summary.has_failed:
            journal.forget([outcome.query_id for outcome in outcomes if not outcome.is_finished])
        else:
            journal.remove()
    return results


def _trust(session: Session) -> Trust | None:
    if session.first_pass is None:
        return None
    found = session.first_pass.correlation
    mean, error = round(found.mean, 4), round(found.error, 4)
    return Trust(value=found.trust, correlation=mean, error=error, queries=found.requests, docs_per_query=HEAD + TAIL)


def _fail_if_failed(summary: Summary, folder: Path) -> None:
    """Raise FailedRunError if more failed than the configuration allows, once all results are written."""
    if not summary.has_failed:
        return
    failures = summary.failures
    causes = {"reranker": failures.batches_failed, "policy": not POLICY_FAILED.isdisjoint(summary.stop_reasons)}
    raise FailedRunError(
        f"the {' and the '.join(name for name, is_one in causes.items() if is_one) or 'reranker'} failed: "
        f"{failures.batches_failed} of {failures.batches_sent} batches, {failures.queries_given_up} of "
        f"{summary.queries_replayed} queries given up; first error: {failures.first_error}; results are kept: "
        f"repeat the command with hydra.run.dir={shlex.quote(str(folder))} resume=true to try the failed queries again"
    )


def _track(tracking: Tracking, folder: Path, summary: Summary) -> None:
    """Log the files. A failure of tracking costs no result."""
    try:
        run_id = tracking.log(folder, parent_of(folder))
    except Exception as error:
        with suppress(OSError):  # a full disk, perhaps, which has its own message
            write_text(folder / TRACKING_ERROR, first_line(error) + "\n")
        sys.stderr.write(
            f"warning: tracking failed ({first_line(error)}); the results are safe in {folder}: "
            f"log them later with ragtune relog {folder}\n"
        )
        return
    if run_id != summary.mlflow_run_id:
        write_summary(folder, summary.tracked_as(run_id))


_PRICES = {
    TIME: "reranker.ms_per_doc",
    MONEY: "reranker.usd_per_doc",
    FLOPS: "reranker.architecture",
    SEARCH_UNITS: "reranker.docs_per_search_unit",
    ENERGY: "a reranker that reports joules",
}


def _report(results: Results, folder: Path, verbosity: int) -> None:
    if verbosity >= 1:
        print_run(results.summary, results.curve)
        charged = results.summary.cost.charged
        for unit, price in _PRICES.items():
            limit = results.config["budget"][unit.limit]
            # Where nothing was reranked, the limit may be what forbade it.
            if limit is not None and charged["docs"] and not charged.get(unit.name):
                print_warning(f"budget.{unit.limit}={limit} never bound: nothing has a price, e.g. {price}")
    outcome = f"conformance: {results.summary.tags.get('conformance', 'not checked')}"
    if "failed" in outcome:
        print_warning(outcome)
    elif verbosity >= 1:
        sys.stdout.write(f"{outcome}\n")
    if verbosity >= 2:
        print_queries(per_query_table(results))
    print_path(folder)


def provenance(config: Mapping[str, Any], overrides: list[str], dataset: Dataset) -> dict[str, Any]:
    """Where a result comes from, as fields of a :class:`~experiments.evaluate.summary.Summary`."""
    groups = ("retriever", "reformulator", "expander", "estimator", "scheduler", "reranker", "assembler")
    return {
        "overrides": overrides,
        "documents": len(dataset.corpus),
        "corpus_digest": dataset.corpus.digest,
        "seed": config["seed"],
        "tags": {
            "git_sha": git_sha(),
            "dataset": dataset.name,
            "conformance": conformance_of(config),
            "ragtune_version": __version__,
            **{group: leaf(config, group) for group in groups},
        },
    }
