"""What the prompt pipeline without a language model puts into a prompt, measured against judgments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bm25s.stopwords import STOPWORDS_EN_PLUS

from experiments.datasets.dataset import Dataset
from ragtune.data.text import words_and_terms
from ragtune.superprompt import Pipeline, SuperPrompt
from ragtune.superprompt.chunks import document_of

_BULLET = re.compile(r"- (?P<text>.+) \[(?P<source>\d+)\]")
_SUPPORT_STAGES = ("Retrieval", "A3_NLI_Gate")
"""Stages whose notices say that the documents do not carry the prompt."""


@dataclass(frozen=True)
class PromptFigures:
    """What one prompt got.

    Attributes:
        attached: documents of the final selection, in order.
        sources: document of each S_CTX bullet that quotes one.
        strangers: bullets that share no term with the prompt, stopwords left out.
        has_notice: whether the prompt says that the documents say little, or nothing.
        dropped: candidates that A3 dropped.
        candidates: candidates that A3 saw.
    """

    attached: tuple[str, ...]
    sources: tuple[str, ...]
    strangers: int
    has_notice: bool
    dropped: int
    candidates: int


def figures_of(done: SuperPrompt) -> PromptFigures:
    """The figures of a prompt that went through all stages."""
    wanted = _content_terms(done.body["task"])
    bullets = [match for line in done.s_ctx_md.split("\n") if (match := _BULLET.fullmatch(line.strip()))]
    decisions = done.extras["a3_decisions"]["candidates"].values()
    return PromptFigures(
        attached=tuple(map(document_of, done.final_selection_ids)),
        sources=tuple(document_of(done.final_selection_ids[int(match["source"]) - 1]) for match in bullets),
        strangers=sum(not wanted & _content_terms(match["text"]) for match in bullets),
        has_notice=any(notice["stage"] in _SUPPORT_STAGES for notice in done.extras.get("notices", [])),
        dropped=sum(decision["decision"] == "drop" for decision in decisions),
        candidates=len(decisions),
    )


def covered_row(dataset: Dataset, pipeline: Pipeline) -> dict[str, float]:
    """Means over the judged queries of a collection with one chunk a document.

    Precision and recall are of the attachments and macro averages (a prompt without attachments has precision 0);
    shares of bullets are of all bullets together.
    """
    qrels = dataset.qrels or {}
    judged = {query_id: text for query_id, text in dataset.queries.items() if any(qrels.get(query_id, {}).values())}
    runs = {query_id: figures_of(pipeline.run_all(SuperPrompt.raw(text))) for query_id, text in judged.items()}
    relevant = {query_id: {doc for doc, grade in qrels[query_id].items() if grade > 0} for query_id in runs}
    hits = {query_id: len(relevant[query_id].intersection(run.attached)) for query_id, run in runs.items()}
    bullets = [(query_id, doc) for query_id, run in runs.items() for doc in run.sources]
    return {
        "queries": len(runs),
        "attachments": _mean(len(run.attached) for run in runs.values()),
        "precision": _mean(hits[query_id] / max(1, len(run.attached)) for query_id, run in runs.items()),
        "recall": _mean(hits[query_id] / len(relevant[query_id]) for query_id in runs),
        "bullets": len(bullets),
        "relevant bullets": _mean(doc in relevant[query_id] for query_id, doc in bullets),
        "strangers": sum(run.strangers for run in runs.values()),
        "false notices": _mean(run.has_notice for run in runs.values()),
        "dropped by A3": _mean(run.dropped / max(1, run.candidates) for run in runs.values()),
    }


def asked_row(passages: Mapping[str, str], pipeline: Pipeline) -> dict[str, float]:
    """Means over questions by the document that answers each; others may answer it too, so nothing is said of them."""
    runs = {text: figures_of(pipeline.run_all(SuperPrompt.raw(text))) for text in passages}
    return {
        "queries": len(runs),
        "attachments": _mean(len(run.attached) for run in runs.values()),
        "recall": _mean(passages[text] in run.attached for text, run in runs.items()),
        "bullets": sum(len(run.sources) for run in runs.values()),
        "strangers": sum(run.strangers for run in runs.values()),
        "false notices": _mean(run.has_notice for run in runs.values()),
    }


def uncovered_row(questions: Sequence[str], pipeline: Pipeline) -> dict[str, float]:
    """Means over questions that the documents do not answer."""
    runs = [figures_of(pipeline.run_all(SuperPrompt.raw(text))) for text in questions]
    return {
        "queries": len(runs),
        "attachments": _mean(len(run.attached) for run in runs),
        "bullets": sum(len(run.sources) for run in runs),
        "notices": _mean(run.has_notice for run in runs),
    }


def table(rows: Mapping[str, Mapping[str, float]]) -> str:
    """Rows by name as a Markdown table; columns in the order in which they first appear."""
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    lines = [f"| | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    lines += [f"| {name} | {' | '.join(_cell(row.get(column)) for column in columns)} |" for name, row in rows.items()]
    return "\n".join(lines)


def _content_terms(text: str) -> set[str]:
    return {term for word, term in words_and_terms(text) if word not in STOPWORDS_EN_PLUS}


def _mean(values: Iterable[float]) -> float:
    given = list(values)
    return sum(given) / len(given) if given else 0.0


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.2f}"
