"""The table of what each stage gains, as Markdown and as CSV by query."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np

from experiments.evaluate.curves import bootstrap_interval
from experiments.study.stages.study import MEASURES, NONE, Outcome, by_variant, known
from experiments.study.stages.support import SHARE
from ragtune.superprompt.options import PromptOptions

RESAMPLES, LEVEL, SEED = 1000, 0.95, 0

_HEADS = {
    "precision": "selection precision",
    "recall": "selection recall",
    "bullets": "S_CTX bullets from relevant documents",
    "support": "answer support",
    "grounded": "answer grounded in the attachments",
}


def write_stages(
    folder: Path,
    outcomes: Sequence[Outcome],
    options: PromptOptions,
    dataset: str,
    command: str,
    note: str | None = None,
) -> str:
    """Write ``stages.md`` and ``stages.csv`` and return the former's text.

    Args:
        folder: where the files go; made if it is missing.
        outcomes: every query under every choice of stages.
        options: the options that all of them ran with.
        dataset: name of the collection.
        command: what makes the table again.
        note: a further line for its head.
    """
    queries = len({outcome.query_id for outcome in outcomes})
    text = f"""# What each stage gains with a language model

- made by `{command}`
- {dataset}, queries: {queries}; the model: {options.llm.model}; it answers every final prompt
- selection: the attachments of the final prompt against the judgments; answer support: share of the answer's sentences
  of which one relevant document holds {SHARE:.0%} of the terms at least, by rule and not by a judge
- differences are to no stage asking, over the queries where both say something; intervals are {LEVEL:.0%} (bootstrap,
  {RESAMPLES:,} samples of the queries)
{"" if note is None else f"- {note}{chr(10)}"}
{_costs(by_variant(outcomes))}

{_gains(by_variant(outcomes))}
"""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stages.md").write_text(text, encoding="utf-8")
    (folder / "stages.csv").write_text(_by_query(outcomes), encoding="utf-8")
    return text


def _costs(variants: Mapping[str, Sequence[Outcome]]) -> str:
    heads = ["calls a prompt", "tokens a prompt", "stage answers unusable", "no answer to the prompt", "attachments"]
    rows = {}
    for variant, outcomes in variants.items():
        asked = sum(len(one.asked) for one in outcomes)
        failed = sum(stage in one.asked for one in outcomes for stage in one.failed)
        calls, tokens = fmean(one.calls for one in outcomes), fmean(one.tokens for one in outcomes)
        unanswered = fmean("answer" in one.failed for one in outcomes)
        unusable = f"{failed / asked:.0%} of {asked}" if asked else ""
        attached = fmean(known(outcomes, "attachments").values())
        rows[variant] = [f"{calls:.1f}", f"{tokens:,.0f}", unusable, f"{unanswered:.0%}", f"{attached:.1f}"]
    return _table(heads, rows)


def _gains(variants: Mapping[str, Sequence[Outcome]]) -> str:
    rows: dict[str, list[str]] = {}
    for variant, outcomes in variants.items():
        pairs = [(known(outcomes, measure), known(variants[NONE], measure)) for measure in _HEADS]
        rows[variant] = [_cell(values, None if variant == NONE else reference) for values, reference in pairs]
    return _table(list(_HEADS.values()), rows)


def _table(heads: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    lines = [f"| stages that ask | {' | '.join(heads)} |", f"|---{'|---:' * len(heads)}|"]
    lines += [f"| {variant.replace('_', ' ')} | {' | '.join(cells)} |" for variant, cells in rows.items()]
    return "\n".join(lines)


def _cell(values: Mapping[str, float], reference: Mapping[str, float] | None) -> str:
    """The mean with its interval, or with that of its difference to the reference; empty where nothing is known."""
    if not values:
        return ""
    mean = f"{fmean(values.values()):.2f}"
    if reference is None:
        return f"{mean}{_interval(list(values.values()), '.2f')}"
    both = [values[query_id] - reference[query_id] for query_id in values if query_id in reference]
    return f"{mean}, {fmean(both):+.2f}{_interval(both, '+.2f')}" if both else mean


def _interval(values: Sequence[float], form: str) -> str:
    """The interval of the mean; of a single value nothing is known."""
    if len(values) == 1:
        return ""
    low, high = bootstrap_interval(np.array(values), resamples=RESAMPLES, level=LEVEL, seed=SEED)
    return f" [{low:{form}}, {high:{form}}]"


def _by_query(outcomes: Sequence[Outcome]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["variant", "query_id", *MEASURES, "failed", "calls", "tokens"])
    for one in outcomes:
        values = ["" if one.values[measure] is None else f"{one.values[measure]:.4f}" for measure in MEASURES]
        writer.writerow([one.variant, one.query_id, *values, " ".join(one.failed), one.calls, one.tokens])
    return file.getvalue()
