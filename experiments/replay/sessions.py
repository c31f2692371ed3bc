"""Sessions of a process: each is built once, and jobs of a sweep share their parts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

from experiments.replay.build import INPUTS, NO_PARTS, SWEPT, Session, build_session, controller_of
from experiments.replay.component import component
from ragtune.core.errors import ConfigError
from ragtune.core.request.budget import CostBudget


@lru_cache(maxsize=2)
def session_for(config_json: str) -> Session:
    """The session of a configuration in JSON, which is built once per process.

    Where the configuration says what its input files hold (:data:`INPUTS`) and scores are recorded, jobs of a sweep
    that differ by their budget share their parts.
    """
    config = json.loads(config_json)
    alike = json.dumps({key: value for key, value in config.items() if key not in NO_PARTS}, sort_keys=True)
    swept = _swept(config[SWEPT]) if SWEPT in config else None
    if (first := _first_of_its_parts.get(alike)) is None:
        session = build_session(config)
        if INPUTS in config and all(reranker.is_recorded for reranker in session.rerankers.values()):
            session = replace(session, kept={}, swept=swept)
            _let_go()  # a sweep's jobs come one kind after the other
            _first_of_its_parts[alike] = session
        return session
    parts = {**first.parts, "budget": component(config, "budget")}
    return replace(first, parts=parts, controller=controller_of(config, parts, first.rerankers), swept=swept)


def _swept(nodes: Sequence[Mapping[str, Any]]) -> list[CostBudget]:
    """The budgets; what is wrong with one that is no budget is told by its own job."""
    budgets = []
    for node in nodes:
        with suppress(ConfigError):
            budgets.append(component({"budget": node}, "budget"))
    return budgets


_first_of_its_parts: dict[str, Session] = {}
"""The latest session that others may share the parts of, by its configuration without what they may differ in."""


def _let_go() -> None:
    """Forget that session. What is kept refers to it: left to the collector of garbage, which comes by rarely, hundreds
    of them would hold their memory and their index files open.
    """
    for session in _first_of_its_parts.values():
        if session.kept:
            session.kept.clear()
    _first_of_its_parts.clear()
