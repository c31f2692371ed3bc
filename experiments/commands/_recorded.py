"""What advise and label share: options of the data alone, and scores that are recorded once."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragtune.core.errors import ConfigError
from ragtune.core.units import MONEY, UNITS

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
    from experiments.prepare.score_table import costs_of_scoring, spends_money, with_scores
    from experiments.publish.progress import progress_bar
    from experiments.replay.build import build_session
    from experiments.report.prices import prices_of

    if build_session(config).rerankers["default"].facts.is_recorded:
        return config
    with progress_bar("forecasting", enabled=True) as update:
        figures = costs_of_scoring(config, update)
    if any(name.startswith("usd_") for name in prices):
        figures = prices_of(prices).on_forecast(figures)
    known = {unit: figures["total"][unit.name] for unit in UNITS if unit.name in figures["total"]}
    digits = {unit: 4 if unit is MONEY else 0 for unit in known}
    amounts = (f"{unit.label} {'unknown' if n is None else f'{n:,.{digits[unit]}f}'}" for unit, n in known.items())
    queries = f"{figures['queries']:,} queries of {figures['dataset']}"
    sys.stdout.write(f"to score once, for {queries}: {', '.join(amounts)}\n")
    if spends_money(config, figures) and not yes:
        _ask()
    return with_scores(config, folder / SCORES)


def _ask() -> None:
    if not sys.stdin.isatty():
        raise ConfigError("scoring may cost money, as shown above: repeat the command with --yes, or on a terminal")
    sys.stderr.write("Score every candidate once? What is scored already is not paid for again. [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfigError("nothing was scored")
