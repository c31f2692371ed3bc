"""Scores a collection's candidates with a live reranker once, for replays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.config.compose import compose
from experiments.config.progress import Progress
from experiments.prepare.score_table import Order, write_score_table
from experiments.prepare.scoring import Scoring
from experiments.replay.build import build_session
from ragtune.core.errors import FailedRunError


def costs_of_scoring(config: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Return the cost of scoring every candidate once that has no score yet; nothing is paid.

    Args:
        config: resolved configuration with a live reranker.
        progress: called with the number of queries done.

    Returns:
        ``dataset``, ``queries``, and by unit the ``total`` and the mean cost ``per_query``; None where the price of a
        unit is not known.
    """
    session = build_session(config)
    plan = Scoring(session, "pool", config["retrieval"]["original_query_depth"]).plan(progress)
    total = {unit: None if unit in plan.unknown else amount for unit, amount in plan.cost.by_unit().items()}
    queries = len(session.dataset.queries)
    per_query = {unit: None if amount is None else amount / queries for unit, amount in total.items()}
    return {"dataset": session.dataset.name, "queries": queries, "total": total, "per_query": per_query}


def spends_money(config: Mapping[str, Any], figures: Mapping[str, Any]) -> bool:
    """Return whether scoring has a price, or an unknown one: services have prices, local models have none."""
    usd = figures["total"]["usd"]
    is_service = "url" in config["reranker"] or "llm" in config["reranker"]
    return is_service if usd is None else usd > 0.0


def with_scores(config: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Score every candidate, write the table, and return the configuration that replays it.

    Args:
        config: resolved configuration with a live reranker. Scores are kept, so that an interrupted call goes on where
            it was.
        file: a Parquet path; its manifest goes beside it.

    Raises:
        FailedRunError: if the reranker left candidates without a score.
    """
    if write_score_table(config, Order(file)):
        raise FailedRunError(f"{file} lacks scores that advice needs, as told above: repeat the command")
    return {**config, "reranker": compose(of_scores(file))["reranker"]}


def of_scores(file: Path) -> list[str]:
    """Return overrides that replay a score table in place of a live reranker."""
    return ["reranker=replay", f"reranker.scores={file}"]
