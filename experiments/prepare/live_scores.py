"""Scores a collection's candidates with a live reranker once, for replays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.config.compose import compose
from experiments.config.progress import Progress
from experiments.prepare.score_table import Order, write_score_table
from experiments.replay.forecast import forecast
from ragtune.core.errors import FailedRunError


def costs_of_scoring(config: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Return the highest cost of scoring every candidate once, see :func:`experiments.replay.forecast.forecast`."""
    everything = compose(["experiment=fixed_depth", "budget=tight", "budget.max_reranker_docs=null"])
    policy = {group: everything[group] for group in ("estimator", "scheduler", "assembler", "budget")}
    return forecast({**config, **policy}, progress)


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
