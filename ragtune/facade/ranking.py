"""What a caller gets back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, overload

import numpy as np

from ragtune.core.arguments import check_number
from ragtune.core.batches.failures import BatchCount
from ragtune.core.loop import FIRST_ROUND, too_small
from ragtune.core.output import ControllerOutput
from ragtune.core.passages import PASSAGE
from ragtune.core.plain import count_of, html_table
from ragtune.core.policy.batching import TORN
from ragtune.core.types import FREE, STRATEGY_CLOSED, CostObject, StopRecord
from ragtune.estimators.posterior.correlation import CORRELATION
from ragtune.estimators.posterior.uncertainty import MARGINS
from ragtune.rerankers.calibration import Calibration
from ragtune.rerankers.scale import SCALE_DOUBT

_LEAST_DOCS = 5  # scored documents of a request whose correlation says something

UNSCORED = "no document was scored, so that min_score leaves none out"


def notes_of(output: ControllerOutput) -> tuple[str, ...]:
    """What the controller noted that a caller can change."""
    short = [event.details for event in output.trace.find(FIRST_ROUND)]
    doubts = [event.details["warning"] for event in output.trace.find(SCALE_DOUBT)]
    return (*(f"the {too_small(**one)}: docs={one['documents']}" for one in short), *doubts)


@dataclass(frozen=True, slots=True)
class RankedDocument:
    """One document of a ranking.

    Attributes:
        index: its position in the documents that were given, from 0.
        score: relevance in [0, 1] on the reranker's scale: the reranker's own score where it scored the document, else
            an estimate. With a calibration, the probability of relevance. The ranking also weighs the sources, so it
            is not always sorted by this number.
        reranker_score: the reranker's score in [0, 1], without a calibration; None where it did not score the document.
        document: the document as it was given.
        passage: start and end, in characters of its text, of the passage that ``score`` is of; None of a whole text.

    Examples:
        >>> from ragtune import BudgetedReranker
        >>> first = BudgetedReranker(lambda query, texts: [0.5] * len(texts), docs=1).rank("tea", ["green tea"])[0]
        >>> first.index, first.document, first.reranker_score, first.reranked
        (0, 'green tea', 0.5, True)
    """

    index: int
    score: float
    reranker_score: float | None
    document: Any = field(repr=False)
    passage: tuple[int, int] | None = None

    @property
    def reranked(self) -> bool:
        """Whether the reranker has scored it."""
        return self.reranker_score is not None

    @property
    def estimated(self) -> bool:
        """Whether ``score`` is an estimate, since the reranker has not scored the document."""
        return self.reranker_score is None


@dataclass(frozen=True)
class Ranking(Sequence[RankedDocument]):
    """Documents, best first: those that the reranker read among those that it did not.

    Attributes:
        documents: the ranking.
        cost: what was charged: documents, calls, tokens, milliseconds, dollars.
        saved: what reranking the other documents too was expected to cost on top, in one call.
        stop: why no more was scored, reason and figures; None for a ranking on the way.
        failures: for each document that the reranker failed to score, by index, why; those of a comparison that failed
            stay where they were (rule F6).
        batches: calls that were sent and that failed as a whole, and the first failure in words.
        is_torn: whether documents were compared in several batches that share none.
        possible: what the reranker's service may bill on top, for calls whose answer was lost.
        notes: further warnings of this ranking, a sentence each.
        nothing_relevant: whether it is empty since no scored document reaches ``min_score``.

    Examples:
        >>> from ragtune import BudgetedReranker
        >>> ranking = BudgetedReranker(lambda query, texts: [0.5] * len(texts), docs=1).rank("tea", ["a", "b", "c"])
        >>> len(ranking), ranking.cost.docs, ranking.saved.docs, ranking.stop.reason
        (3, 1, 2, 'budget_exhausted')
    """

    documents: tuple[RankedDocument, ...]
    cost: CostObject
    saved: CostObject = FREE
    stop: StopRecord | None = None
    failures: dict[int, str] = field(default_factory=dict)
    batches: BatchCount = field(default_factory=BatchCount)
    is_torn: bool = False
    possible: CostObject = FREE
    notes: tuple[str, ...] = ()
    nothing_relevant: bool = False

    def at_least(self, min_score: float | None) -> Self:
        """Return the ranking of the documents that the reranker gave ``min_score`` or more; None for all documents.

        Documents without a score of the reranker are left out, too: estimates are mostly too high. There are two
        exceptions. A document whose call failed stays. If no document was scored, all stay, and a note says so.

        Args:
            min_score: smallest ``score``, in [0, 1].

        Raises:
            ConfigError: if it is out of range.
        """
        if min_score is None:
            return self
        check_number("min_score", min_score, low=0.0, high=1.0)
        if not any(one.reranked for one in self):
            return replace(self, notes=(*self.notes, UNSCORED)) if len(self) else self
        kept = tuple(one for one in self if (one.reranked and one.score >= min_score) or one.index in self.failures)
        return replace(self, documents=kept, nothing_relevant=not kept)

    @property
    def warnings(self) -> list[str]:
        """What went wrong with the reranker or the budget, a sentence each; empty where nothing did."""
        found = []
        if self.failures:
            why = next(iter(self.failures.values()))
            found.append(f"{len(self.failures)} documents could not be reranked: {why}")
        if self.stop is not None and self.stop.reason == STRATEGY_CLOSED:
            why = self.batches.first_error or self.stop.message
            found.append(f"the model fails, so that documents it has not read are in the first stage's order: {why}")
        elif self.batches.failed and not self.failures:
            told = f"{self.batches.failed} of {self.batches.sent} calls failed"
            found.append(f"{told}: {self.batches.first_error}")
        if self.is_torn:
            found.append(f"{TORN}; take a policy that compares, or fixed_depth")
        return [*found, *self.notes]

    def __repr__(self) -> str:
        read = sum(one.reranked for one in self)
        return f"Ranking({count_of(len(self), 'documents')}, {read} scored in {count_of(self.cost.calls, 'calls')})"

    def _repr_html_(self) -> str:
        """The first ten documents, for notebooks."""
        return html_table(
            repr(self),
            [
                {"score": f"{one.score:.3f}", "scored": "yes" if one.reranked else "estimate", "document": one.document}
                for one in self[:10]
            ],
        )

    def __len__(self) -> int:
        return len(self.documents)

    @overload
    def __getitem__(self, i: int) -> RankedDocument: ...
    @overload
    def __getitem__(self, i: slice) -> tuple[RankedDocument, ...]: ...
    def __getitem__(self, i: int | slice) -> RankedDocument | tuple[RankedDocument, ...]:
        return self.documents[i]

    def __iter__(self) -> Iterator[RankedDocument]:
        return iter(self.documents)


def evidence_of(output: ControllerOutput) -> tuple[Mapping[str, float], float | None]:
    """By how much each source agrees better with the others than the reranker, and its correlation with them all."""
    # The correlation is that of the first documents: later ones are chosen by the scores of earlier ones.
    values = [event.details for event in output.trace.find("value", "estimator")]
    correlations = (each.get(CORRELATION) for each in values if each.get("scored", 0) >= _LEAST_DOCS)
    return values[-1].get(MARGINS, {}) if values else {}, next(correlations, None)


def put_back(output: ControllerOutput) -> dict[str, str]:
    """Why documents are candidates again whose comparison failed, by id."""
    events = [event.details for event in output.trace.find("put_back")]
    return {doc_id: details["error"] for details in events for doc_id in details["doc_ids"]}


def ranked_documents(
    documents: Sequence[Any], output: ControllerOutput, calibration: Calibration | None
) -> tuple[RankedDocument, ...]:
    """The caller's documents by the last step of a request; ids are their places."""
    step, places = output.history[-1], _places(output)
    # Where nothing was scored (no budget, a dead reranker), the caller's order stands, whatever the policy expects.
    has_scores = not np.isnan(step.columns.scores).all()
    order = step.keys.argsort() if has_scores else np.arange(len(step.doc_ids))
    own = step.columns.scores[order]
    read = ~np.isnan(own)
    shown = np.where(read, own, step.columns.priorities[order])
    shown = shown if calibration is None else calibration(shown)
    numbers = zip(order.tolist(), shown.tolist(), own.tolist(), read.tolist(), strict=True)
    return tuple(
        RankedDocument(
            i := int(doc_id := step.doc_ids[position]),
            score,
            value if is_read else None,
            documents[i],
            places.get(doc_id),
        )
        for position, score, value, is_read in numbers
    )


def _places(output: ControllerOutput) -> dict[str, tuple[int, int]]:
    """Start and end of the best passage of each document that was split, by id."""
    if output.reading is None:
        return {}
    found = ((each.doc_id, each.metadata.get(PASSAGE)) for each in output.reading.documents.entries)
    return {doc_id: (place["start"], place["end"]) for doc_id, place in found if place}
