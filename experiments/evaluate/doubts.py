"""What a run says against its policy, its reranker and its signals."""

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
    """A warning about queries for which the first stage found nothing, with their number.

    Args:
        outcomes: of all queries of a run.
    """
    queries = int((outcomes.sizes[:, 0] == 0).sum())
    return (
        {f"of {len(outcomes)} queries have no candidates, since the first stage found nothing": queries}
        if queries
        else {}
    )


def doubts(outcomes: Outcomes) -> dict[str, int]:
    """Warnings about sources that seem to know better than the reranker, each with the number of such queries.

    A source is one of them if it agrees with the other sources better than the reranker does by more than chance: by
    the randomization test over the queries, after Holm's correction for the number of sources, at the level of 5%. It
    takes several sources and an estimator that compares them, see
    :meth:`ragtune.estimators.posterior._corroboration.Corroboration.margins`. With a single source, nothing can be
    said. The library and the server say it as requests come, see :class:`ragtune.facade.doubts.Doubts`.

    Args:
        outcomes: of all queries of a run.
    """
    margins = list(outcomes.told(lambda mishaps: mishaps.margins))
    names = list(dict.fromkeys(name for of_query in margins for name in of_query))
    columns = {name: np.array([of_query[name] for of_query in margins if name in of_query]) for name in names}
    tested = {name: (float(column.mean()), _p_value(column)) for name, column in columns.items()}
    return {
        f"queries in which {in_words(name, chance(p), 'estimator.trust')}": int((columns[name] > 0.0).sum())
        for name, p in doubted(tested).items()
    }


def breakdowns(outcomes: Outcomes) -> dict[str, int]:
    """Warnings about components that raised errors, by which queries ended or without which they went on, each with the
    number of such queries and the first error.

    Args:
        outcomes: of all queries of a run.
    """
    broken = [i for i, reason in enumerate(outcomes.stop_reasons) if reason in POLICY_FAILED]
    found = {}
    if broken:
        told = outcomes.mishaps.get(outcomes.query_ids[broken[0]])
        reason, error = outcomes.stop_reasons[broken[0]], told.stop_error if told else None
        found[f"queries that the policy gave up, first: {reason}, {error}"] = len(broken)
    went_on = list(outcomes.told(lambda mishaps: mishaps.went_on))
    for action, count in Counter(action for errors in went_on for action in errors).items():
        error = next(errors[action] for errors in went_on if action in errors)
        found[f"queries with {action} in their traces, first: {error}"] = count
    return found


def silences(outcomes: Outcomes) -> dict[str, int]:
    """Warnings about signals that told no two documents apart, each with the number of such queries.

    Args:
        outcomes: of all queries of a run.
    """
    silent = Counter(name for names in outcomes.told(lambda mishaps: mishaps.silent) for name in sorted(names))
    return {
        f"queries in which the signal {name!r} tells no documents apart, so that it changes nothing": n
        for name, n in silent.items()
    }


def short_budgets(outcomes: Outcomes) -> dict[str, int]:
    """A warning about a budget that is too small for the policy's first round, with the number of such queries.

    It names the smallest budget that is enough for all of them.

    Args:
        outcomes: of all queries of a run.
    """
    rounds = list(outcomes.told(lambda mishaps: mishaps.first_round))
    if not rounds:
        return {}
    docs, calls = (max(amounts) for amounts in zip(*rounds, strict=True))
    return {f"queries whose {too_small(docs, calls)}: budget={docs}": len(rounds)}


def scales(outcomes: Outcomes) -> dict[str, int]:
    """Warnings about a live reranker's scale, each with the number of queries that brought it, one a process.

    Args:
        outcomes: of all queries of a run.
    """
    return dict(Counter(filter(None, outcomes.told(lambda mishaps: mishaps.scale_doubt))))


def unused(outcomes: Outcomes) -> dict[str, int]:
    """A warning about scores that were paid for and have changed no ranking of the run, with the number of queries.

    Args:
        outcomes: of all queries of a run.
    """
    paid, unmoved = outcomes.charged[:, UNITS.index("docs")] > 0.0, int(outcomes.unmoved.sum())
    if not unmoved or unmoved < int(paid.sum()):
        return {}
    return {"queries whose documents were scored without a change of the ranking: what was paid is not used": unmoved}


def torn(outcomes: Outcomes) -> dict[str, int]:
    """A warning about documents that were compared in several batches, with the number of such queries.

    Args:
        outcomes: of all queries of a run that compares documents in batches that share none.
    """
    several = int((outcomes.batches[:, 0] - outcomes.batches[:, 1] > 1).sum())
    return {f"queries whose {TORN}; see experiment=plackett_luce, or scheduler=one_shot": several} if several else {}


def _p_value(margins: FloatArray) -> float:
    return float(randomization_test(margins[:, None], permutations=PERMUTATIONS, seed=0)[0])
