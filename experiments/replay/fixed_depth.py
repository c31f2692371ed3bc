"""The baselines of a run, replayed: fixed depth under the same budget, and full reranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from experiments.config.run_config import RunConfig
from experiments.evaluate.baselines import EVERYTHING, FIXED_DEPTH, Beaten
from experiments.evaluate.record import QueryRecord, Ranked
from experiments.replay.build import NO_PARTS, Session, controller_of
from ragtune.assemblers.greedy import GreedyAssembler
from ragtune.core.errors import ScoreTableError
from ragtune.core.interfaces import BaseReformulator
from ragtune.core.output import ControllerOutput
from ragtune.core.pool.ordering import Ordering
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.limits import LIMITS
from ragtune.core.request.request import Request
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.expanders.none import NoExpander
from ragtune.schedulers.one_shot import OneShotScheduler

_FIXED_PARTS = {
    "expander": NoExpander(),
    "estimator": BaselineEstimator(),
    "scheduler": OneShotScheduler(),
    "assembler": GreedyAssembler(Ordering.RERANKED_FIRST),
}
"""The parts of ``conf/experiment/fixed_depth.yaml``."""

_FOR_EVERYTHING = dict.fromkeys((*LIMITS.values(), "assembly_token_buffer"))
"""The limits that reranking everything is freed of; the pool is the run's own."""

_KEPT_DOCS = 200_000
"""Candidates of replayed baselines that are kept for the next jobs: some half a kilobyte each."""


def is_fixed_depth(session: Session) -> bool:
    """Whether the policy is fixed depth: one batch of the first stage's best, ranked by their scores."""
    parts = session.parts
    return (
        all(type(parts[group]) is type(_FIXED_PARTS[group]) for group in ("estimator", "scheduler"))
        and (parts["expander"] is None or not parts["expander"].is_active)
        and parts["assembler"].ordering is not Ordering.FINAL_SCORE  # the others put the rest behind
    )


def is_free(session: Session) -> bool:
    """Whether asking again costs nothing: scores are recorded, and no model rewrites the queries."""
    reformulator = session.parts["reformulator"]
    asks_nobody = type(reformulator).expected_cost is BaseReformulator.expected_cost
    return asks_nobody and all(reranker.is_recorded for reranker in session.rerankers.values())


def baselines_of(config: RunConfig, session: Session) -> Beaten:
    """What replays the baselines of a run; it replays nothing where that would cost something."""
    return FixedDepth(config, session).over if is_free(session) else lambda query_ids: {}


class FixedDepth:
    """Fixed depth under the run's budget, and without a limit: reranking everything.

    An baseline is left out once the score table lacks what it asks for: it need only hold what the policy asks for.

    Args:
        config: of the run.
        session: the run's.
    """

    def __init__(self, config: RunConfig, session: Session) -> None:
        budget: CostBudget = session.parts["budget"]
        self._budgets = {FIXED_DEPTH: budget, EVERYTHING: budget.model_copy(update=_FOR_EVERYTHING)}
        same = config.without(*_FIXED_PARTS, *NO_PARTS)
        self._known = {name: _replays(same, budget) for name, budget in self._budgets.items()}
        parts = {**session.parts, **_FIXED_PARTS}
        self._session = replace(session, parts=parts, controller=controller_of(config, parts, session.rerankers))
        self._room = _KEPT_DOCS // session.controller.rounds.plan.original_query_depth

    def over(self, query_ids: Sequence[str]) -> dict[str, list[Ranked]]:
        """Replay queries: by the name of each baseline that could answer all queries so far, in their order."""
        found: dict[str, list[Ranked]] = {name: [] for name in self._budgets}
        for query_id in query_ids:
            for name, ranked in self._ranked(query_id).items():
                found[name].append(ranked)
        return {name: found[name] for name in self._budgets}

    def _ranked(self, query_id: str) -> dict[str, Ranked]:
        found = {name: self._known[name][query_id] for name in self._budgets if query_id in self._known[name]}
        if missing := [name for name in self._budgets if name not in found]:
            for name, output in self._replayed(query_id, missing).items():
                found[name] = Ranked.of(QueryRecord.of(output, traced=False))
                if len(self._known[name]) < self._room:
                    self._known[name][query_id] = found[name]
        return found

    def _replayed(self, query_id: str, names: Sequence[str]) -> dict[str, ControllerOutput]:
        """The answers under these budgets; a budget under which a score is missing is given up."""
        request = Request(self._session.dataset.queries[query_id], query_id)
        try:
            outputs = self._session.controller.run_under(request, [self._budgets[name] for name in names])
            return dict(zip(names, outputs, strict=True))
        except ScoreTableError:
            if len(names) == 1:
                del self._budgets[names[0]]
                return {}
            return {name: output for each in names for name, output in self._replayed(query_id, [each]).items()}


@lru_cache(maxsize=3)
def _replays(config: RunConfig, budget: CostBudget) -> dict[str, Ranked]:
    """The replays of a baseline so far, by query. Jobs of a sweep often differ by their policy alone."""
    return {}
