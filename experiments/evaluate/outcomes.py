"""How the requests of many queries have ended, as columns, and the warnings that follow from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.evaluate.record import UNITS, QueryRecord
from experiments.evaluate.significance import PERMUTATIONS, randomization_test
from ragtune.core.loop import too_small
from ragtune.core.policy.batching import TORN
from ragtune.core.statistics import chance, doubted, in_words
from ragtune.core.types import BUDGET_EXHAUSTED, GIVEN_UP, POLICY_FAILED
from ragtune.core.units import TOKENS, Unit
from ragtune.core.units import UNITS as ALL


@dataclass(frozen=True, slots=True)
class QueryOutcome:
    """How the request of one query has ended; see the same names of :class:`QueryRecord`."""

    query_id: str
    stop_reason: str
    sizes: tuple[int, int, int, int]  # pool, documents without a score, context, its tokens
    batches: tuple[int, int]  # sent, failed
    ties: Sequence[int]
    rewrites: Sequence[int]  # whether a reformulator was asked, searched rewrites, and their new documents
    is_unmoved: bool
    overrun_ms: float
    charged: Sequence[float]
    actual: Sequence[float]
    notes: Mapping[str, Any]

    @classmethod
    def of(cls, record: QueryRecord) -> QueryOutcome:
        return cls(
            record.query_id,
            record.stop_reason,
            (record.pool_docs, len(record.dropped), record.context_docs, record.context_tokens),
            (record.batches.get("sent", 0), record.batches.get("failed", 0)),
            record.ties or (0, 0),
            (1, *record.notes["rewrites"]) if "rewrites" in record.notes else (0, 0, 0),
            record.is_unmoved,
            record.overrun_ms,
            record.charged,
            record.actual,
            _notes(record),
        )

    @property
    def is_given_up(self) -> bool:
        """Whether the query stopped because its policy failed, or a reranker too often."""
        return self.stop_reason in GIVEN_UP

    @property
    def is_finished(self) -> bool:
        """Whether nothing failed; otherwise another try may answer the query better."""
        return not (self.sizes[1] or self.batches[1] or self.is_given_up)


class Outcomes(list[QueryOutcome]):
    """The outcomes of many queries in their order, at least one."""

    def column(self, name: str) -> NDArray[Any]:
        """A field or property of all queries, shape (q,) or (q, its length)."""
        return np.array([getattr(outcome, name) for outcome in self])

    def noted(self, name: str) -> list[Any]:
        """One of the notes of all queries that have it."""
        return [outcome.notes[name] for outcome in self if name in outcome.notes]


def _notes(record: QueryRecord) -> dict[str, Any]:
    stop_error = record.stop["details"].get("error") if record.stop_reason in GIVEN_UP else None
    found = {**record.notes, "stop_error": stop_error, "first_error": record.batches.get("first_error") or stop_error}
    found["first_document"] = _first_document(record)
    return {name: value for name, value in found.items() if value and name != "rewrites"}


def _first_document(record: QueryRecord) -> tuple[str, float] | None:
    """What a first document takes where it does not fit into a budget that is not 0, and why it was refused."""
    short = record.stop.get("details") or {}
    if record.charged[UNITS.index("docs")] or record.stop_reason != BUDGET_EXHAUSTED or not short.get("remaining"):
        return None
    return (short["reason"], short["requested"] + short.get("elapsed", 0)) if "requested" in short else None


def warnings_of(outcomes: Outcomes, *, compares_apart: bool) -> dict[str, int]:
    """All warnings, each with the number of its queries."""
    found = empty(outcomes) | breakdowns(outcomes) | silences(outcomes) | short_budgets(outcomes)
    found |= starved(outcomes) | unused(outcomes) | doubts(outcomes) | Counter(outcomes.noted("scale_doubt"))
    return found | torn(outcomes) if compares_apart else found


def empty(outcomes: Outcomes) -> dict[str, int]:
    """Queries for which the first stage found nothing."""
    queries = sum(not outcome.sizes[0] for outcome in outcomes)
    what = f"of {len(outcomes)} queries have no candidates, since the first stage found nothing"
    return {what: queries} if queries else {}


def doubts(outcomes: Outcomes) -> dict[str, int]:
    """Sources that agree with the other sources better than the reranker does, by a randomization test with Holm."""
    margins = outcomes.noted("margins")
    names = list(dict.fromkeys(name for of_query in margins for name in of_query))
    columns = {name: np.array([of_query[name] for of_query in margins if name in of_query]) for name in names}
    p_value = partial(randomization_test, permutations=PERMUTATIONS, seed=0)
    tested = {name: (float(column.mean()), float(p_value(column[:, None])[0])) for name, column in columns.items()}
    return {
        f"queries in which {in_words(name, chance(p), 'estimator.trust')}": int((columns[name] > 0.0).sum())
        for name, p in doubted(tested).items()
    }


def breakdowns(outcomes: Outcomes) -> dict[str, int]:
    """Components that raised errors, which ended queries or were left out, with the first error."""
    broken = [outcome for outcome in outcomes if outcome.stop_reason in POLICY_FAILED]
    found = {}
    if broken:
        first = f"{broken[0].stop_reason}, {broken[0].notes.get('stop_error')}"
        found[f"queries that the policy gave up, first: {first}"] = len(broken)
    went_on = outcomes.noted("mishaps")
    for action, count in Counter(action for errors in went_on for action in errors).items():
        error = next(errors[action] for errors in went_on if action in errors)
        found[f"queries with {action} in their traces, first: {error}"] = count
    return found


def silences(outcomes: Outcomes) -> dict[str, int]:
    """Signals that rank no document above another."""
    silent = Counter(name for names in outcomes.noted("silent") for name in sorted(set(names)))
    words = "queries in which the signal {!r} separates no documents, so it changes nothing"
    return {words.format(name): count for name, count in silent.items()}


def short_budgets(outcomes: Outcomes) -> dict[str, int]:
    """A budget that is too small for the policy's first round, with the smallest budget that is enough for all."""
    rounds = outcomes.noted("first_round")
    if not rounds:
        return {}
    docs, calls = (max(amounts) for amounts in zip(*rounds, strict=True))
    return {f"queries whose {too_small(docs, calls)}: budget={docs}": len(rounds)}


def starved(outcomes: Outcomes) -> dict[str, int]:
    """A budget, not 0, in which not one document fits, with the smallest amount that is enough for all queries."""
    needed: dict[Unit, list[float]] = {}
    for reason, amount in outcomes.noted("first_document"):
        needed.setdefault(_LIMITED_BY[reason], []).append(amount)
    found = {}
    for unit, amounts in needed.items():
        most = max(amounts)
        budget, kept = (2 * most, ", half of which is kept for the context") if unit is TOKENS else (most, "")
        takes = f"it takes {most:.12g} {unit.noun}: budget={budget:.12g}{unit.short}{kept}"
        found[f"queries in which not one document fits into the budget; {takes}"] = len(amounts)
    return found


_LIMITED_BY = {unit.refusal: unit for unit in ALL}


def unused(outcomes: Outcomes) -> dict[str, int]:
    """Scores that were paid for and changed no ranking of the run; queries with a failed call are left out."""
    whole = [outcome for outcome in outcomes if not outcome.batches[1]]  # nothing came of a failed call
    paid = sum(outcome.charged[UNITS.index("docs")] > 0.0 for outcome in whole)
    unmoved = sum(outcome.is_unmoved for outcome in whole)
    if not unmoved or unmoved < paid:
        return {}
    return {"queries whose documents were scored without a change of the ranking: what was paid is not used": unmoved}


def torn(outcomes: Outcomes) -> dict[str, int]:
    """Documents that were compared in several batches that share none."""
    several = sum(sent - failed > 1 for sent, failed in (outcome.batches for outcome in outcomes))
    return {f"queries whose {TORN}; see experiment=plackett_luce, or scheduler=one_shot": several} if several else {}
