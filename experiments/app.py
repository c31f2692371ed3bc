"""One experiment, from configuration to files."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.build import component, session_for
from experiments.config import fingerprint, results_key
from experiments.curves import Curve, curve
from experiments.journal import Journal
from experiments.measure import Measures
from experiments.outputs import Results, per_query_table, policy_name, read_summary, write_results, write_summary
from experiments.provenance import provenance
from experiments.replay import replay
from experiments.summary import summarize
from experiments.terminal import print_path, print_queries, print_run, progress_bar
from experiments.track import Tracking, parent_of
from ragtune.core.errors import ConfigError


def run_experiment(config: Mapping[str, Any], folder: Path, overrides: list[str], *, in_sweep: bool = False) -> None:
    """Replay, measure, write, track, print.

    Args:
        config: resolved configuration.
        folder: where results go.
        overrides: the command line's choices, for the record.
        in_sweep: print one line instead of the table.
    """
    tracking: Tracking = component(config, "tracking")
    verbosity = _verbosity(config)
    done = read_summary(folder) if config["resume"] else None
    if done is not None and done["fingerprint"] == fingerprint(config):
        sys.stderr.write("nothing to do: this run is complete\n")
        print_path(folder)
        return
    results = _produce(config, folder, overrides, progress=verbosity > 0)
    _track(tracking, folder, results.summary)
    _report(results, folder, 0 if in_sweep and verbosity < 2 else verbosity)


def _produce(config: Mapping[str, Any], folder: Path, overrides: list[str], *, progress: bool) -> Results:
    started = time.perf_counter()
    session = session_for(results_key(config))
    measures = Measures(config["measures"], session.dataset.qrels)
    folder.mkdir(parents=True, exist_ok=True)
    with Journal(folder, fingerprint(config), resume=config["resume"]) as journal:
        with progress_bar(f"replaying {session.dataset.name}", enabled=progress) as update:
            records = replay(config, journal, update)
        judged = set(session.dataset.judged)
        drawn = _curve(config, [r for r in records if r.query_id in judged], measures)
        summary = {
            **summarize(session.dataset, records, drawn),
            **provenance(config, overrides, session.dataset),
            "fingerprint": fingerprint(config),
            "wall_s": round(time.perf_counter() - started, 3),
            "mlflow_run_id": None,
        }
        results = Results(config, session.dataset, records, drawn, summary)
        write_results(folder, results)
        journal.remove()
    return results


def _curve(config: Mapping[str, Any], records: list[Any], measures: Measures) -> Curve:
    resamples, level = config["bootstrap"]["resamples"], config["bootstrap"]["level"]
    if isinstance(resamples, bool) or not isinstance(resamples, int) or resamples < 1:
        raise ConfigError(f"bootstrap.resamples={resamples!r}: allowed is an integer >= 1")
    if not 0 < level < 1:
        raise ConfigError(f"bootstrap.level={level!r}: allowed is a number between 0 and 1, e.g. 0.95")
    return curve(records, measures, resamples=resamples, level=level, seed=config["seed"])


def _track(tracking: Tracking, folder: Path, summary: Mapping[str, Any]) -> None:
    """Log the files; whatever goes wrong there costs no result."""
    try:
        run_id = tracking.log(folder, parent_of(folder))
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        sys.stderr.write(
            f"warning: tracking failed ({reason}); the results are safe in {folder}: "
            f"log them later with python scripts/relog.py {folder}\n"
        )
        return
    write_summary(folder, {**summary, "mlflow_run_id": run_id})


def _report(results: Results, folder: Path, verbosity: int) -> None:
    if verbosity >= 1:
        print_run(results.summary, results.curve, policy_name(results.config))
    if verbosity >= 2:
        print_queries(per_query_table(results))
    print_path(folder)


def _verbosity(config: Mapping[str, Any]) -> int:
    verbosity = config["verbosity"]
    if verbosity not in (0, 1, 2):
        raise ConfigError(f"verbosity={verbosity!r}: allowed are 0, 1 and 2")
    return int(verbosity)
