"""Options of ``ragtune serve`` for models behind the first one, and for what a key may use on a day."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtune.core.arguments import check_number
from ragtune.core.errors import ConfigError

if TYPE_CHECKING:
    from ragtune.services.chain import Model
    from ragtune.services.usage import Usage

_DAILY = {"docs": (int, "documents"), "calls": (int, "calls"), "usd": (float, "dollars")}
_NUMBERS = ("usd_per_search_unit", "usd_per_1k_tokens", "max_length", "batch_size")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of :func:`make_fallbacks` and :func:`make_usage`."""
    group = parser.add_argument_group("fallbacks and limits")
    group.add_argument(
        "--fallback",
        metavar="'MODEL [NAME=VALUE ...]'",
        action="append",
        help="model for requests that --model scores nothing of; repeatable, and the first stage's order is the last "
        "one. NAME: for an address model, dialect, scale, api_key_env, usd_per_search_unit, batch_size; for a local "
        "one dtype; for all max_length, usd_per_1k_tokens",
    )
    group.add_argument("--usage", metavar="FILE", type=Path, help="SQLite file that counts what each key uses on a day")
    for unit, (kind, noun) in _DAILY.items():
        group.add_argument(f"--key-{unit}", metavar="N", type=kind, help=f"{noun} of a key on a day (UTC)")
    group.add_argument(
        "--over-limit",
        choices=("first-stage", "429"),
        default="first-stage",
        help="what a key over its limit gets; default: the first stage's order",
    )


def make_fallbacks(arguments: argparse.Namespace, calls: dict[str, Any]) -> list[Model]:
    """The models of ``--fallback``; ``calls`` are options of those behind an address."""
    from ragtune.facade.models import is_address, reranker_for
    from ragtune.services.chain import Model

    found = []
    for text in arguments.fallback or ():
        try:
            model, *pairs = shlex.split(text) or [""]
        except ValueError as error:
            raise ConfigError(f"--fallback {text}: cannot be split into words ({error})") from None
        named = dict(pair.partition("=")[::2] for pair in pairs)
        options = {name: _number(name, value) if name in _NUMBERS else value for name, value in named.items()}
        is_remote = is_address(model)
        own = calls if is_remote else {"dtype": "auto"}
        reranker = reranker_for(model, {"cache_dir": arguments.score_cache} | own | options)
        found.append(Model(named.get("model", model), reranker, is_local=not is_remote))
    return found


def make_usage(arguments: argparse.Namespace) -> Usage | None:
    """What counts the use of keys; None without ``--usage``."""
    named = {unit: getattr(arguments, f"key_{unit}") for unit in _DAILY}
    limits = {unit: limit for unit, limit in named.items() if limit is not None}
    if arguments.usage is None:
        if limits:
            raise ConfigError(f"--key-{next(iter(limits))}: allowed with --usage FILE only")
        return None
    from ragtune.services.usage import Usage

    for unit, limit in limits.items():
        check_number(f"--key-{unit}", limit, low=0.0)
    return Usage(arguments.usage, limits, refuses=arguments.over_limit == "429")


def _number(name: str, text: str) -> float:
    try:
        return int(text) if name in ("max_length", "batch_size") else float(text)
    except ValueError:
        raise ConfigError(f"--fallback {name}={text}: allowed is a number") from None
