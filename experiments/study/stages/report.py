"""The table of what each stage gains, as Markdown and as CSV by query."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.study.stages.study import MEASURES, NONE, Outcome, means
from experiments.study.stages.support import SHARE
from ragtune.superprompt.options import PromptOptions

_HEADS = {
    "attachments": "attachments",
    "precision": "selection precision",
    "recall": "selection recall",
    "bullets": "S_CTX bullets from relevant documents",
    "support": "answer support",
    "grounded": "answer grounded in the attachments",
}
_PLACES = {"attachments": 1}


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
- {dataset}, {queries} queries; the model: {options.llm.model}; it answers every final prompt, whichever stages asked it
- selection: the attachments of the final prompt against the judgments; answer support: share of the answer's sentences
  of which one relevant document holds {SHARE:.0%} of the terms at least, by rule and not by a judge
- in brackets: the difference to no stage asking
{"" if note is None else f"- {note}{chr(10)}"}
{_table(means(outcomes))}
"""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stages.md").write_text(text, encoding="utf-8")
    (folder / "stages.csv").write_text(_by_query(outcomes), encoding="utf-8")
    return text


def _table(rows: Mapping[str, Mapping[str, float]]) -> str:
    heads = ["stages that ask", *(_HEADS[measure] for measure in MEASURES)]
    heads += ["stage answers unusable", "no answer", "tokens of the stages a prompt"]
    lines = [f"| {' | '.join(heads)} |", f"|---{'|---:' * (len(heads) - 1)}|"]
    for variant, row in rows.items():
        cells = [_cell(measure, row[measure], None if variant == NONE else rows[NONE][measure]) for measure in MEASURES]
        cells += [f"{row['failed']:.0%}", f"{row['unanswered']:.0%}", f"{row['tokens']:,.0f}"]
        lines.append(f"| {variant.replace('_', ' ')} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(measure: str, value: float, reference: float | None) -> str:
    places = _PLACES.get(measure, 2)
    return f"{value:.{places}f}" if reference is None else f"{value:.{places}f} ({value - reference:+.{places}f})"


def _by_query(outcomes: Sequence[Outcome]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["variant", "query_id", *MEASURES, "failed", "tokens"])
    for one in outcomes:
        values = ["" if one.values[measure] is None else f"{one.values[measure]:.4f}" for measure in MEASURES]
        writer.writerow([one.variant, one.query_id, *values, " ".join(one.failed), one.tokens])
    return file.getvalue()
