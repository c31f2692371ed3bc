"""What a run says against its policy, its reranker and its signals."""

from __future__ import annotations

from collections import Counter

import numpy as np

from experiments.evaluate.outcomes import Outcomes
from experiments.evaluate.significance import PERMUTATIONS, SIGNIFICANT, holm, randomization_test
from ragtune.core.types import POLICY_FAILED


def warnings_of(outcomes: Outcomes, *, compares_apart: bool) -> dict[str, int]:
    """All warnings, each with the number of its queries.

    Args:
        outcomes: of all queries of a run.
        compares_apart: whether documents are compared in batches that share none.
    """
    found = breakdowns(outcomes) | silences(outcomes) | doubts(outcomes)
    return found | torn(outcomes) if compares_apart else found


def doubts(outcomes: Outcomes) -> dict[str, int]:
    """Warnings about sources that seem to know better than the reranker, each with the number of such queries.

    A source is one of them if it agrees with the other sources better than the reranker does by more than chance: by
    the randomization test over the queries, after Holm's correction for the number of sources, at the level of 5%. It
    takes several sources and an estimator that compares them, see
    :meth:`ragtune.estimators._corroboration.Corroboration.margins`. With a single source, nothing can be said.

    Args:
        outcomes: of all queries of a run.
    """
    margins = list(outcomes.told(lambda mishaps: mishaps.margins))
    names = list(dict.fromkeys(name for of_query in margins for name in of_query))
    columns = [np.array([of_query[name] for of_query in margins if name in of_query]) for name in names]
    p_values = [float(randomization_test(c[:, None], permutations=PERMUTATIONS, seed=0)[0]) for c in columns]
    tested = zip(names, columns, holm(p_values).tolist(), strict=True)
    return {_words(name, p): int((c > 0.0).sum()) for name, c, p in tested if p < SIGNIFICANT and c.mean() > 0.0}


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


def torn(outcomes: Outcomes) -> dict[str, int]:
    """A warning about documents that were compared in several batches, with the number of such queries.

    Args:
        outcomes: of all queries of a run that compares documents in batches that share none.
    """
    several = int((outcomes.batches[:, 0] > 1).sum())
    return {_TORN: several} if several else {}


_TORN = (
    "queries whose documents were compared in batches that share no document: a place in one says nothing of those in "
    "another, but orders them; see experiment=plackett_luce, or scheduler=one_shot"
)


def _words(source: str, p: float) -> str:
    chance = "p < .001" if p < 0.001 else f"p = {p:.3f}".replace("0.", ".", 1)
    return (
        f"queries in which the source {source!r} agrees better with the other sources than the reranker does, which is "
        f"more than chance ({chance}): it may be the better judge, or read the same words "
        "as they do; see estimator.trust"
    )
