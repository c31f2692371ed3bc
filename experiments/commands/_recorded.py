"""What advise and label share: options of the data alone, and scores that are recorded once."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragtune.core.errors import ConfigError, FailedRunError

SCORES = "scores.parquet"

_OF_THE_DATA = ("dataset", "retriever", "signal", "fusion", "retrieval", "reranker", "seed", "measures", "bootstrap")


def check_data_options(overrides: Sequence[str], why: str) -> None:
    """Refuse overrides that choose more than a collection, a first stage and a reranker; ``why`` ends the message."""
    for override in overrides:
        if name_of(override).partition(".")[0] not in _OF_THE_DATA:
            raise ConfigError(f"{override!r}: allowed are options of {', '.join(_OF_THE_DATA)}; {why}")


def name_of(override: str) -> str:
    """What an override sets, e.g. ``dataset.path``."""
    return override.partition("=")[0].lstrip("+~").rpartition("@")[2]


def recorded(config: dict[str, Any], folder: Path, prices: Mapping[str, float], *, yes: bool) -> dict[str, Any]:
    """The configuration with recorded scores: its own, or those that its live reranker gives now, below ``folder``."""
    from experiments.config.compose import compose
    from experiments.prepare.score_table import of_scores, write_score_table
    from experiments.prepare.scoring import Order, ScorePlan
    from experiments.replay.build import build_session

    if build_session(config).rerankers["default"].facts.is_recorded:
        return config
    is_service = "url" in config["reranker"] or "llm" in config["reranker"]

    def agree(plan: ScorePlan) -> None:
        usd = None if "usd" in plan.unknown else plan.cost.usd
        if any(name.startswith("usd_") for name in prices):
            usd = plan.usd_at(prices)
            sys.stderr.write(f"by the given prices: ${usd:,.4f}\n")
        # A local model has no price: it costs nothing.
        if yes or not plan.to_score or not (is_service if usd is None else usd > 0.0):
            return
        if not sys.stdin.isatty():
            raise ConfigError("scoring may cost money, as shown above: repeat the command with --yes, or on a terminal")
        sys.stderr.write("Score every candidate once? What is scored already is not paid for again. [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise ConfigError("nothing was scored")

    file = folder / SCORES
    if write_score_table(config, Order(file), agree):
        raise FailedRunError(f"{file} lacks scores that this needs, as shown above: repeat the command")
    return {**config, "reranker": compose(of_scores(file))["reranker"]}
