"""How the requests of many queries have ended, as columns, and the warnings that follow from them."""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.evaluate.record import UNITS, QueryRecord
from experiments.evaluate.significance import PERMUTATIONS, randomization_test
from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.types import BUDGET_EXHAUSTED, GIVEN_UP, POLICY_FAILED
from ragtune.core.units import TOKENS, Unit
from ragtune.core.units import UNITS as ALL
from ragtune.facade.doubts import chance, doubted, in_words
from ragtune.facade.ranking import TORN, too_small


@dataclass(frozen=True, eq=False)
class Outcomes:
    """How the requests of q queries have ended.

    Attributes:
        query_ids: ids of the queries.
        stop_reasons: why each stopped, in a word.
        sizes: shape (q, 4), documents in the final pool, documents that could not be scored, documents and tokens of
            the context.
        batches: shape (q, 2), batches sent to a reranker, and those of them that failed.
        ties: shape (q, 2), see :func:`experiments.evaluate.record.ties_of`.
        rewrites: shape (q, 3), whether a reformulator was asked (0 or 1), searched rewrites, and their new documents.
        unmoved: shape (q,), see :attr:`QueryRecord.is_unmoved`.
        overrun_ms: shape (q,), milliseconds by which the query has passed its time limit.
        charged: shape (q, u), charged in each of ``UNITS``.
        actual: shape (q, u), really paid.
        notes: of the queries that have any, by query id: see :func:`experiments.evaluate.record.notes_of`; the
            ``stop_error`` that gave the query up; the ``first_error`` of a batch, else that error; and the
            ``first_document`` that the budget has no room for: reason of the refusal, and the amount that it takes.
    """

    query_ids: Sequence[str]
    stop_reasons: Sequence[str]
    sizes: IntArray
    batches: IntArray
    ties: IntArray
    rewrites: IntArray
    unmoved: NDArray[np.bool_]
    overrun_ms: FloatArray
    charged: FloatArray
    actual: FloatArray
    notes: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, records: Sequence[QueryRecord]) -> Outcomes:
        """The outcomes of these records."""
        notes = {record.query_id: _notes(record) for record in records}
        return cls(
            query_ids=[record.query_id for record in records],
            stop_reasons=[record.stop_reason for record in records],
            sizes=_columns(4, [(r.pool_docs, len(r.dropped), r.context_docs, r.context_tokens) for r in records], int),
            batches=_columns(2, [[r.batches.get(name, 0) for name in ("sent", "failed")] for r in records], int),
            ties=_columns(2, [r.ties or (0, 0) for r in records], int),
            rewrites=_columns(3, list(map(_rewrites, records)), int),
            unmoved=np.array([record.is_unmoved for record in records], dtype=bool),
            overrun_ms=np.array([record.overrun_ms for record in records], dtype=float),
            charged=_columns(len(UNITS), [record.charged for record in records], float),
            actual=_columns(len(UNITS), [record.actual for record in records], float),
            notes={query_id: noted for query_id, noted in notes.items() if noted},
        )

    @classmethod
    def joined(cls, parts: Sequence[Outcomes]) -> Outcomes:
        """The outcomes of several groups of queries, of which there is at least one, in their order."""
        columns = {name: [getattr(part, name) for part in parts] for name in vars(parts[0])}
        return cls(**{name: _joined(column) for name, column in columns.items()})

    def __len__(self) -> int:
        return len(self.query_ids)

    def noted(self, name: str) -> list[Any]:
        """One of the notes of all queries that have it, in their order."""
        known = (self.notes.get(query_id, {}) for query_id in self.query_ids) if self.notes else ()
        return [notes[name] for notes in known if name in notes]

    @property
    def given_up(self) -> NDArray[np.bool_]:
        """Which queries stopped because their policy failed, or a reranker too often, shape (q,)."""
        return np.fromiter(map(has_given_up, self.stop_reasons), bool, len(self))

    @property
    def unfinished(self) -> list[str]:
        """The queries of which something failed, so that another try may answer them better."""
        failed = (self.sizes[:, 1] > 0) | (self.batches[:, 1] > 0) | self.given_up
        return [self.query_ids[query] for query in np.flatnonzero(failed).tolist()]


def _notes(record: QueryRecord) -> dict[str, Any]:
    stop_error = record.stop["details"].get("error") if has_given_up(record.stop_reason) else None
    found = {**record.notes, "stop_error": stop_error, "first_error": record.batches.get("first_error") or stop_error}
    found["first_document"] = _first_document(record)
    return {name: value for name, value in found.items() if value and name != "rewrites"}


def _first_document(record: QueryRecord) -> tuple[str, float] | None:
    """What a first document takes where it does not fit into a budget that is not 0, and why it was refused."""
    short = record.stop.get("details") or {}
    if record.charged[UNITS.index("docs")] or record.stop_reason != BUDGET_EXHAUSTED or not short.get("remaining"):
        return None
    return (short["reason"], short["requested"] + short.get("elapsed", 0)) if "requested" in short else None


def _rewrites(record: QueryRecord) -> Sequence[int]:
    return (1, *record.notes["rewrites"]) if "rewrites" in record.notes else (0, 0, 0)


def has_given_up(stop_reason: str) -> bool:
    """Whether a query stopped because its policy failed, or a reranker too often."""
    return stop_reason in GIVEN_UP


def _joined(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return ChainMap(*parts) if isinstance(parts[0], Mapping) else list(chain.from_iterable(parts))


def _columns(width: int, rows: Sequence[Sequence[float]], kind: type) -> Any:
    return np.array(rows, dtype=kind).reshape(len(rows), width)


def warnings_of(outcomes: Outcomes, *, compares_apart: bool) -> dict[str, int]:
    """All warnings, each with the number of its queries."""
    found = empty(outcomes) | breakdowns(outcomes) | silences(outcomes) | short_budgets(outcomes)
    found |= starved(outcomes) | unused(outcomes) | doubts(outcomes) | scales(outcomes)
    return found | torn(outcomes) if compares_apart else found


def empty(outcomes: Outcomes) -> dict[str, int]:
    """Queries for which the first stage found nothing."""
    queries = int((outcomes.sizes[:, 0] == 0).sum())
    return (
        {f"of {len(outcomes)} queries have no candidates, since the first stage found nothing": queries}
        if queries
        else {}
    )


def doubts(outcomes: Outcomes) -> dict[str, int]:
    """Sources that agree with the other sources better than the reranker does, by more than chance.

    The test is the randomization test over the queries, after Holm's correction for the number of sources, at the level
    of 5%. It needs several sources and an estimator that compares them, see
    :meth:`ragtune.estimators.posterior._corroboration.Corroboration.margins`.
    """
    margins = outcomes.noted("margins")
    names = list(dict.fromkeys(name for of_query in margins for name in of_query))
    columns = {name: np.array([of_query[name] for of_query in margins if name in of_query]) for name in names}
    tested = {name: (float(column.mean()), _p_value(column)) for name, column in columns.items()}
    return {
        f"queries in which {in_words(name, chance(p), 'estimator.trust')}": int((columns[name] > 0.0).sum())
        for name, p in doubted(tested).items()
    }


def breakdowns(outcomes: Outcomes) -> dict[str, int]:
    """Components that raised errors, which ended queries or were left out, with the first error."""
    broken = [i for i, reason in enumerate(outcomes.stop_reasons) if reason in POLICY_FAILED]
    found = {}
    if broken:
        notes = outcomes.notes.get(outcomes.query_ids[broken[0]], {})
        reason, error = outcomes.stop_reasons[broken[0]], notes.get("stop_error")
        found[f"queries that the policy gave up, first: {reason}, {error}"] = len(broken)
    went_on = outcomes.noted("mishaps")
    for action, count in Counter(action for errors in went_on for action in errors).items():
        error = next(errors[action] for errors in went_on if action in errors)
        found[f"queries with {action} in their traces, first: {error}"] = count
    return found


def silences(outcomes: Outcomes) -> dict[str, int]:
    """Signals that rank no document above another."""
    silent = Counter(name for names in outcomes.noted("silent") for name in sorted(set(names)))
    return {
        f"queries in which the signal {name!r} tells no documents apart, so that it changes nothing": n
        for name, n in silent.items()
    }


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


def scales(outcomes: Outcomes) -> dict[str, int]:
    """Warnings about a live reranker's scale, one a process."""
    return dict(Counter(outcomes.noted("scale_doubt")))


def unused(outcomes: Outcomes) -> dict[str, int]:
    """Scores that were paid for and changed no ranking of the run; queries with a failed call are left out."""
    whole = outcomes.batches[:, 1] == 0  # a failed call is paid for, and there is nothing to use
    paid = whole & (outcomes.charged[:, UNITS.index("docs")] > 0.0)
    unmoved = int((whole & outcomes.unmoved).sum())
    if not unmoved or unmoved < int(paid.sum()):
        return {}
    return {"queries whose documents were scored without a change of the ranking: what was paid is not used": unmoved}


def torn(outcomes: Outcomes) -> dict[str, int]:
    """Documents that were compared in several batches that share none."""
    several = int((outcomes.batches[:, 0] - outcomes.batches[:, 1] > 1).sum())
    return {f"queries whose {TORN}; see experiment=plackett_luce, or scheduler=one_shot": several} if several else {}


def _p_value(margins: FloatArray) -> float:
    return float(randomization_test(margins[:, None], permutations=PERMUTATIONS, seed=0)[0])
