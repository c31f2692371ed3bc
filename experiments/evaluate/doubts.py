"""Warnings about a policy, a reranker and signals, each with the number of queries that it concerns.

Every function takes the outcomes of all queries of a run.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from experiments.evaluate.outcomes import Outcomes
from experiments.evaluate.record import UNITS
from experiments.evaluate.significance import PERMUTATIONS, randomization_test
from ragtune.core.arrays import FloatArray
from ragtune.core.types import POLICY_FAILED
from ragtune.facade.doubts import chance, doubted, in_words
from ragtune.facade.ranking import TORN, too_small


def warnings_of(outcomes: Outcomes, *, compares_apart: bool) -> dict[str, int]:
    """All warnings, each with the number of its queries.

    Args:
        outcomes: of all queries of a run.
        compares_apart: whether documents are compared in batches that share none.
    """
    found = empty(outcomes) | breakdowns(outcomes) | silences(outcomes) | short_budgets(outcomes)
    found |= unused(outcomes) | doubts(outcomes) | scales(outcomes)
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


def scales(outcomes: Outcomes) -> dict[str, int]:
    """Warnings about a live reranker's scale, one a process."""
    return dict(Counter(outcomes.noted("scale_doubt")))


def unused(outcomes: Outcomes) -> dict[str, int]:
    """Scores that were paid for and changed no ranking of the run."""
    paid, unmoved = outcomes.charged[:, UNITS.index("docs")] > 0.0, int(outcomes.unmoved.sum())
    if not unmoved or unmoved < int(paid.sum()):
        return {}
    return {"queries whose documents were scored without a change of the ranking: what was paid is not used": unmoved}


def torn(outcomes: Outcomes) -> dict[str, int]:
    """Documents that were compared in several batches that share none."""
    several = int((outcomes.batches[:, 0] - outcomes.batches[:, 1] > 1).sum())
    return {f"queries whose {TORN}; see experiment=plackett_luce, or scheduler=one_shot": several} if several else {}


def _p_value(margins: FloatArray) -> float:
    return float(randomization_test(margins[:, None], permutations=PERMUTATIONS, seed=0)[0])
