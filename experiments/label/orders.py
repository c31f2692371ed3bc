"""The two orders of each query that labels decide between: the first stage's and the reranker's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.config.compose import compose
from experiments.replay.build import session_for
from experiments.replay.records import records_of
from ragtune.core.errors import ConfigError

_POLICY = ("estimator", "scheduler", "assembler", "budget")


def both_orders(config: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
    """Id of each query, its candidates in the first stage's order, and in the reranker's.

    Args:
        config: resolved configuration with recorded scores.

    Raises:
        ConfigError: if scores are not recorded.
        InputError: if a part of the configuration is unusable, or a score is missing.
    """
    everything = compose(["experiment=fixed_depth", "budget=tight", "budget.max_reranker_docs=null"])
    session = session_for({**config, **{group: everything[group] for group in _POLICY}})
    if not all(reranker.is_recorded for reranker in session.rerankers.values()):
        raise ConfigError("the scores must be recorded: reranker.scores=FILE")
    for record in records_of(session, session.dataset.query_ids, traced=False):
        yield record.query_id, record.ranking_at(0), record.ranking
