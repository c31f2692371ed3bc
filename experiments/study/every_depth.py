"""Fixed depth of a study at every depth, by the code that measures a run of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.evaluate.curves import Bootstrap, Steps, curve
from experiments.evaluate.measures import Measures
from experiments.replay import records
from experiments.replay.build import session_for
from experiments.replay.records import records_of
from experiments.study.study import Line
from ragtune.core.units import DOCS


def is_fixed_depth(config: Mapping[str, Any]) -> bool:
    """Whether a policy is fixed depth, as a run decides it. Few policies are worth building their parts for that."""
    alike = all(config[group]["_target_"].endswith(f".{name}") for group, name in _PARTS.items())
    return alike and records.is_fixed_depth(session_for(config))


_PARTS = {"estimator": "BaselineEstimator", "scheduler": "OneShotScheduler"}


def line_at_every_depth(config: Mapping[str, Any], deepest: int, measures: Sequence[str], bootstrap: Bootstrap) -> Line:
    """The curve of fixed depth after 0, 1, ... documents, from one replay.

    Args:
        config: of the policy, without a limit.
        deepest: documents a query at most.
        measures: what is measured.
        bootstrap: of the intervals.
    """
    session = session_for({**config, "budget": {**config["budget"], DOCS.limit: deepest}})
    measured = Measures(measures, session.dataset.qrels)
    records = list(records_of(session, session.dataset.judged, traced=False))
    drawn = curve(Steps.of(records, measured, fixed_depth=True), measured.names, bootstrap)
    return Line(drawn.docs.astype(float), drawn.costs[:, 0], drawn.mean, drawn.low, drawn.high, drawn.costs, steps=True)
