"""What a run says against its policy, its reranker and its signals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from experiments.evaluate.record import QueryRecord
from experiments.evaluate.significance import PERMUTATIONS, SIGNIFICANT, holm, randomization_test
from ragtune.core.types import POLICY_FAILED


def doubts(records: Sequence[QueryRecord]) -> dict[str, int]:
    """Warnings about sources that seem to know better than the reranker, each with the number of such queries.

    A source is one of them if it agrees with the other sources better than the reranker does by more than chance: by
    the randomization test over the queries, after Holm's correction for the number of sources, at the level of 5%. It
    takes several sources and an estimator that compares them, see
    :meth:`ragtune.estimators._corroboration.Corroboration.margins`. With a single source, nothing can be said.

    Args:
        records: of all queries of a run, with their traces.
    """
    margins = [found for record in records if (found := record.margins)]
    names = list(dict.fromkeys(name for of_query in margins for name in of_query))
    columns = [np.array([of_query[name] for of_query in margins if name in of_query]) for name in names]
    p_values = [float(randomization_test(c[:, None], permutations=PERMUTATIONS, seed=0)[0]) for c in columns]
    tested = zip(names, columns, holm(p_values).tolist(), strict=True)
    return {_words(name, p): int((c > 0.0).sum()) for name, c, p in tested if p < SIGNIFICANT and c.mean() > 0.0}


def breakdowns(records: Sequence[QueryRecord]) -> dict[str, int]:
    """Warnings about components that raised errors, by which queries ended or without which they went on, each with the
    number of such queries and the first error.

    Args:
        records: of all queries of a run.
    """
    broken = [record for record in records if record.stop_reason in POLICY_FAILED]
    found = {}
    if broken:
        error = broken[0].stop["details"].get("error")
        found[f"queries that the policy gave up, first: {broken[0].stop_reason}, {error}"] = len(broken)
    counts = Counter(action for record in records for action in record.mishaps)
    for action, count in counts.items():
        error = next(record.mishaps[action] for record in records if action in record.mishaps)
        found[f"queries with {action} in their traces, first: {error}"] = count
    return found


def silences(records: Sequence[QueryRecord]) -> dict[str, int]:
    """Warnings about signals that told no two documents apart, each with the number of such queries.

    Args:
        records: of all queries of a run, with their traces.
    """
    silent = Counter(name for record in records for name in sorted(record.silent_signals))
    return {
        f"queries in which the signal {name!r} tells no documents apart, so that it changes nothing": n
        for name, n in silent.items()
    }


def _words(source: str, p: float) -> str:
    chance = "p < .001" if p < 0.001 else f"p = {p:.3f}".replace("0.", ".", 1)
    return (
        f"queries in which the source {source!r} agrees better with the other sources than the reranker does, which is "
        f"more than chance ({chance}): it may be the better judge, or read the same words "
        "as they do; see estimator.trust"
    )
