"""Fills score tables with a live reranker, for replays."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.config.options import leaf
from experiments.evaluate.files import whole
from experiments.prepare.scoring import Order, ScoreJournal, ScorePlan, Scoring, manifest_of
from experiments.publish.folders import locked, note_missing, remove_if_empty, remove_new_empty
from experiments.publish.progress import progress_bar
from experiments.replay.build import build_session
from experiments.replay.inputs import identity
from ragtune.core.arguments import check_count, check_number
from ragtune.core.errors import ConfigError, FailedRunError
from ragtune.data.files.textfile import read_json

DONE, FAILED = 0, 1

Pair = tuple[str, str, float]

_SHOWN_FAILURES = 5


def write_score_table(
    config: Mapping[str, Any], order: Order, agree: Callable[[ScorePlan], None] = lambda plan: None
) -> int:
    """Score query-document pairs of a dataset, and write them as a score table with its manifest.

    ``agree`` raises where the work, whose cost is shown, should not begin.
    """
    if order.out.suffix not in (".parquet", ".run"):
        raise ConfigError(f"--out {str(order.out)!r}: allowed are names that end in .parquet or .run (a TREC run)")
    if order.max_docs is not None:
        check_count("--max-docs", order.max_docs, low=1)
    if order.max_usd is not None:
        check_number("--max-usd", order.max_usd, low=0.0)
    decisive = {name: config[name] for name in ("dataset", "retriever", "reranker")}
    ours = identity({**decisive, "depth": config["retrieval"]["original_query_depth"], "pairs": order.pairs})
    if _is_complete(order.out, ours):
        sys.stderr.write("nothing to do: this table is complete; delete it to score again\n")
        return DONE
    loaded_first = {name: name == "preload" or value for name, value in config["reranker"].items()}
    session = build_session({**config, "reranker": loaded_first})  # so that the time of a call is measured
    if session.rerankers["default"].facts.is_recorded:
        raise ConfigError(f"reranker={leaf(config, 'reranker')} scores nothing: choose a live one, e.g. cross_encoder")
    for gap, missing in session.dataset.warnings.items():
        sys.stderr.write(f"warning: {missing} {gap}\n")
    partial = order.out.with_name(f"{order.out.name}.partial")
    note_missing(partial)
    partial.mkdir(parents=True, exist_ok=True)
    try:
        with locked(partial, "--out"), ScoreJournal(partial, ours, resume=True) as journal:
            scoring = Scoring(session, order.pairs, config["retrieval"]["original_query_depth"], journal)
            if not order.dry_run:
                scoring.reranker.prepare()  # so that the time of a call is measured
            with progress_bar("counting", enabled=True) as update:
                plan = scoring.plan(update)
            sys.stderr.write(f"{_plan_line(plan)}\n")
            if order.max_usd is not None and plan.to_score and "usd" in plan.unknown:
                price = "give one, e.g. reranker.usd_per_1k_tokens=PRICE"
                raise ConfigError(f"--max-usd {order.max_usd}: nothing has a price: {price}")
            agree(plan)
            return DONE if order.dry_run else _fill(scoring, plan, config, order, ours["fingerprint"])
    finally:
        remove_if_empty(partial)
        remove_new_empty()


def _fill(scoring: Scoring, plan: ScorePlan, config: Mapping[str, Any], order: Order, fingerprint: str) -> int:
    in_a_row = config["failures"]["requests_in_a_row"]
    with progress_bar("scoring", enabled=True) as update:
        scoring.run(order, in_a_row, update, plan)
    found = scoring.found()
    pairs = [(each.query_id, doc_id, score) for each in found for doc_id, score in each.scores.items()]
    if not pairs:
        raise FailedRunError(f"no pair was scored: {_why(scoring)}")
    missing = plan.pairs - len(pairs)
    write_table(
        order.out,
        pairs,
        {
            "scale": "identity",
            "model": order.model or _describe(config["reranker"]),
            "text_hash": scoring.session.dataset.corpus.digest,
            **manifest_of(found, "usd" not in scoring.reranker.facts.unpriced),
            "pairs": len(pairs),
            **({"missing_pairs": missing} if missing else {}),
            "dataset": scoring.session.dataset.name,
            "source": "ragtune score",
            "fingerprint": fingerprint,
        },
    )
    if not missing:
        scoring.journal.remove()
    return _tell(order.out, len(pairs), plan, scoring, sum(bool(each.scores) for each in found))


def _tell(out: Path, pairs: int, plan: ScorePlan, scoring: Scoring, queries: int) -> int:
    usd = f"; paid ${scoring.paid.usd:.4f}" if scoring.paid.usd else ""
    sys.stdout.write(f"{pairs} pairs of {queries} queries: {out}{usd}\n")
    missing = plan.pairs - pairs
    again = "repeat the command to score the rest"
    if scoring.stopped:
        sys.stderr.write(f"stopped by {scoring.stopped}: {missing} pairs have no score yet; {again}\n")
    if not scoring.failures:
        return DONE
    sys.stderr.write(f"error: {missing} pairs have no score: {_why(scoring)}; the others are kept: {again}\n")
    return FAILED


def _why(scoring: Scoring) -> str:
    if not scoring.failures:
        return f"stopped by {scoring.stopped}" if scoring.stopped else "the retriever found nothing"
    named = [f"query {query} ({n} documents): {why}" for query, (n, why) in scoring.failures.items()]
    more = [f"and {len(named) - _SHOWN_FAILURES} queries more"] if len(named) > _SHOWN_FAILURES else []
    gave_up = ["given up, since the last queries all failed"] if scoring.gave_up else []
    return "; ".join([*named[:_SHOWN_FAILURES], *more, *gave_up])


def _plan_line(plan: ScorePlan) -> str:
    known = [f"{plan.done:,} are scored already"] * bool(plan.done) + [f"{plan.kept:,} are kept in the cache"] * bool(
        plan.kept
    )
    of = f" (of {plan.pairs:,}: {', '.join(known)})" if known else ""
    line = f"to score: {plan.to_score:,} pairs of {plan.queries:,} queries{of}"
    if not plan.to_score:
        return f"{line}; this costs nothing"
    cost = plan.cost
    usd = "price unknown" if "usd" in plan.unknown else f"${cost.usd:,.4f}"
    time = "time unknown" if "latency_ms" in plan.unknown else f"about {_duration(cost.latency_ms / 1000)}"
    return f"{line}; {cost.calls:,} calls, {cost.tokens:,} tokens, {usd}, {time}"


def _is_complete(out: Path, ours: Mapping[str, Any]) -> bool:
    manifest = out.with_name(f"{out.name}.manifest.json")
    try:
        said = read_json(manifest.read_bytes()) if out.is_file() else None
    except (OSError, ValueError):
        return False
    return isinstance(said, dict) and said.get("fingerprint") == ours["fingerprint"] and "missing_pairs" not in said


def _describe(reranker: Mapping[str, Any]) -> str:
    model = reranker.get("model") or reranker.get("embedder", {}).get("model", "")
    return f"{leaf({'reranker': reranker}, 'reranker')}:{Path(str(model)).name if Path(str(model)).is_dir() else model}"


def of_scores(file: Path) -> list[str]:
    """Return overrides that replay a score table in place of a live reranker."""
    return ["reranker=replay", f"reranker.scores={file}"]


def write_table(file: Path, pairs: Sequence[Pair], manifest: Mapping[str, Any]) -> None:
    """Write the sorted pairs and the manifest beside them; an existing table is replaced once both are whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f"{file.name}.manifest.json")
    with whole(beside) as new_manifest, whole(file) as new:
        if file.suffix == ".parquet":
            import pandas as pd

            columns = ["query_id", "doc_id", "score"]
            pd.DataFrame(sorted(pairs), columns=columns).to_parquet(new, index=False, compression="zstd")
        else:
            new.write_text("".join(_run(pairs)), encoding="utf-8")
        new_manifest.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def _run(pairs: Sequence[Pair]) -> Iterator[str]:
    last, rank = None, 0
    for query_id, doc_id, score in sorted(pairs, key=lambda pair: (pair[0], -pair[2], pair[1])):
        last, rank = query_id, rank + 1 if query_id == last else 1
        yield f"{query_id} Q0 {doc_id} {rank} {score!r} ragtune\n"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
