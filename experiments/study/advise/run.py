"""From recorded scores to the written advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.config.progress import Progress
from experiments.label.verdict import Verdict
from experiments.publish.described import git_sha
from experiments.replay.build import session_for
from experiments.study.advise.advice import Advice
from experiments.study.advise.conclude import conclude
from experiments.study.advise.list_prices import listed_services
from experiments.study.advise.prices import Prices, prices_of
from experiments.study.advise.replays import replay_all
from experiments.study.advise.snippets import snippets
from ragtune.core.arguments import check_choice
from ragtune.core.errors import ConfigError

JUDGED_QUALITY, AGREEMENT_QUALITY = 0.95, 0.8
"""The share to be kept where none is named: of a measure by judgments, and of the full top 10."""


def run_advice(
    config: Mapping[str, Any],
    recorded: Mapping[str, Any],
    *,
    overrides: Sequence[str],
    labels: Verdict | None = None,
    prices: Mapping[str, Any],
    quality: float | None,
    unit: str | None,
    traffic: int,
    folder: Path,
    processes: int,
    command: str,
    progress: Progress,
) -> Advice:
    """Replay the policies over recorded scores, and choose.

    Args:
        config: the user's configuration.
        recorded: the same with the scores recorded, which may be what it says already.
        overrides: those that make ``recorded``, for the commands to be copied.
        labels: what the labels of ragtune label decide, which are no judgments to measure by.
        prices: those that the user names (see :class:`~experiments.study.advise.prices.Prices`); others are taken from
            the reranker and its score table.
        quality: share to be kept, in (0, 1]; None for :data:`JUDGED_QUALITY` or :data:`AGREEMENT_QUALITY`.
        unit: what "cheap" means; None for dollars where they have a price, else documents.
        traffic: queries a month.
        folder: where the advice will be written.
        processes: worker processes; -1 for one a core.
        command: the command that makes it again.
        progress: told of the policies done.

    Raises:
        InputError: on a configuration or a score table that cannot be used, or a unit without a price.
    """
    known = prices_of(*_own_prices(config["reranker"], session_for(recorded).rerankers["default"]), prices)
    _require_priced(unit, known)
    replays = replay_all(recorded, recorded["measures"][:1], processes, progress)
    default = JUDGED_QUALITY if replays.judged else AGREEMENT_QUALITY
    advice = conclude(
        replays,
        known,
        listed_services(),
        labels=labels,
        quality=default if quality is None else quality,
        unit=unit or ("usd" if "usd" in known.priced else "docs"),
        traffic=traffic,
        **recorded["bootstrap"],
        seed=recorded["seed"],
        command=command,
        git_sha=git_sha(),
    )
    return advice.model_copy(update={"use": snippets(advice.recommended, config, overrides, folder)})


def _own_prices(node: Mapping[str, Any], replayed: Any) -> list[Mapping[str, Any]]:
    """What the score table knows, then what the reranker's own configuration says."""
    table = {name: getattr(replayed, name, 0.0) for name in ("ms_per_doc", "ms_per_call", "usd_per_doc")}
    own = {name: node[name] for name in Prices.model_fields if isinstance(node.get(name), int | float)}
    # Neither can leave a price out: 0 is what they say where none is known.
    return [{name: value for name, value in source.items() if value} for source in (table, own)]


def _require_priced(unit: str | None, prices: Prices) -> None:
    if unit is not None and check_choice("--unit", unit, ("docs", "usd", "ms")) not in prices.priced:
        raise ConfigError(f"--unit {unit}: nothing has a price in it; --prices FILE gives one, e.g. {unit}_per_doc")
