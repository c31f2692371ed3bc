"""Options of the rerank API: what scores, how much a query may cost, who is waited for."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtune.core.arguments import check_number
from ragtune.core.errors import ConfigError

if TYPE_CHECKING:
    from ragtune.adapters.rerank import RerankServer

_UNITS = (
    ("docs", int, "documents that may be reranked"),
    ("calls", int, "calls of the model"),
    ("tokens", int, "tokens that the model may read"),
    ("ms", float, "milliseconds"),
    ("usd", float, "dollars"),
    ("flops", float, "floating-point operations, of a model with --architecture"),
    ("search_units", int, "search units, of a server that bills them"),
    ("joules", float, "joules, of a model with --measure-energy"),
)
_UPSTREAM = {
    "upstream_model": ("model", str, "model that the rerank server is asked for"),
    "upstream_dialect": ("dialect", str, "what it speaks: cohere, jina, vllm, tei, infinity, voyage; cohere if unsaid"),
    "upstream_scale": ("scale", str, "what its scores are: identity, in [0, 1], or logit, as llama.cpp's"),
    "upstream_key_env": ("api_key_env", str, "NAME of the variable that holds its key"),
    "usd_per_search_unit": ("usd_per_search_unit", float, "dollars for a call with up to 100 documents"),
}
"""Options that only a rerank server has: the component's name of each, its type, and its meaning."""

_COMMON = ("max_length", "usd_per_1k_tokens")
_LOCAL = ("architecture", "measure_energy")
"""Options that only a model in this process has."""

_SHARE_OF_TIME = 0.9
"""Of a request's time that a rerank server may take; the rest is for the answer without it."""


def add_rerank_options(parser: argparse.ArgumentParser) -> None:
    """Options of :func:`make_ranker`."""
    group = parser.add_argument_group(
        "rerank API",
        "/v1/rerank, /v2/rerank and /rerank, as Cohere's and Jina's. Limits are those of a query that names none "
        "of its own; without any, all documents are reranked.",
    )
    group.add_argument(
        "--model", metavar="MODEL", help="cross-encoder (folder or hub name), or address of a rerank server"
    )
    for name, (_, kind, meaning) in _UPSTREAM.items():
        group.add_argument(_flag(name), metavar="X", type=kind, help=meaning)
    group.add_argument("--max-length", metavar="N", type=int, help="tokens of query and document that are read")
    group.add_argument("--usd-per-1k-tokens", metavar="X", type=float, help="dollars, for budgets and answers")
    group.add_argument(
        "--architecture", metavar="SIZE", help="the model's size, for FLOPs: auto reads its configuration"
    )
    group.add_argument(
        "--measure-energy", action="store_const", const=True, help="measure joules, where the machine tells"
    )
    group.add_argument("--score-cache", metavar="DIR", type=Path, help="where scores are kept; else nowhere")
    for unit, kind, meaning in _UNITS:
        group.add_argument(_flag(unit), metavar="N", type=kind, help=f"{meaning} a query")
    group.add_argument("--advice", metavar="FILE", type=Path, help="advice.json of ragtune advise")
    group.add_argument("--policy", help="uncertainty (if unsaid), settled, early_stop or fixed_depth")
    group.add_argument("--batch-size", metavar="N", type=int, help="documents a call of the model; 5 if unsaid")
    group.add_argument(
        "--trust", metavar="X", type=float, help="0: order of first stages and signals, 1: the model's; 0.5 if unsaid"
    )
    group.add_argument(
        "--patience",
        metavar="MS",
        type=float,
        default=3.0,
        help="how long a call waits for other requests",
    )
    group.add_argument("--call-docs", metavar="N", type=int, default=128, help="documents of a shared call; 1: its own")
    group.add_argument(
        "--rerank-threads", metavar="N", type=int, default=32, help="requests of this API that are worked on at once"
    )
    shadow = parser.add_argument_group(
        "shadow", "What the budget loses, measured on your own requests: ragtune shadow report tells."
    )
    shadow.add_argument(
        "--shadow", metavar="SHARE", type=float, help="of the requests with a budget that are reranked in full as well"
    )
    shadow.add_argument("--shadow-file", metavar="FILE", type=Path, help="where each is appended, without any text")
    shadow.add_argument("--shadow-texts", action="store_true", help="with the query and the first documents after all")


def make_ranker(arguments: argparse.Namespace) -> AbstractContextManager[RerankServer | None]:
    """What the rerank API works on, its model loaded; None without ``--model``.

    Raises:
        InputError: on options that do not fit together, a missing extra, or a model that cannot be loaded.
    """
    budget = {unit: getattr(arguments, unit) for unit, _, _ in _UNITS}
    if arguments.shadow_texts and arguments.shadow_file is None:
        raise ConfigError("--shadow-texts: allowed with --shadow-file only")
    if arguments.model is None:
        theirs = [*budget, *_UPSTREAM, *_COMMON, *_LOCAL, "advice", "score_cache", "shadow", "shadow_file"]
        _refuse(arguments, theirs, "with --model only")
        return nullcontext()
    if arguments.shadow is None:
        _refuse(arguments, ["shadow_file"], "with --shadow only")
    from ragtune.adapters.rerank import RerankServer
    from ragtune.adapters.shadow import ShadowOptions
    from ragtune.facade.models import is_address, reranker_for

    options: dict[str, Any] = {"cache_dir": arguments.score_cache}
    options |= {name: value for name in (*_COMMON, *_LOCAL) if (value := getattr(arguments, name)) is not None}
    is_remote = is_address(arguments.model)
    if is_remote:
        _refuse(arguments, list(_LOCAL), "where --model is a model, not an address")
        given = {theirs: getattr(arguments, name) for name, (theirs, _, _) in _UPSTREAM.items()}
        options |= {"timeout_s": arguments.timeout} | {
            name: value for name, value in given.items() if value is not None
        }
    else:
        _refuse(arguments, list(_UPSTREAM), "where --model is the address of a rerank server")
    shadow = None
    if arguments.shadow is not None:
        shadow = ShadowOptions(arguments.shadow, arguments.shadow_file, arguments.shadow_texts)
    policy: dict[str, Any] = {"policy": "uncertainty", "batch_size": 5, "trust": 0.5} | _advised(arguments)
    policy |= {name: value for name in policy if (value := getattr(arguments, name)) is not None}
    budget["docs"] = policy.pop("docs", None)
    patience_ms = check_number("--patience", arguments.patience, low=0.0)
    return RerankServer(
        reranker_for(arguments.model, options),
        arguments.upstream_model or arguments.model,
        budget=budget,
        **policy,
        max_documents=arguments.max_batch,
        # A rerank server takes one query a call: there is nothing to share.
        patience_ms=None if is_remote else patience_ms,
        call_docs=arguments.call_docs,
        time_s=_SHARE_OF_TIME * arguments.timeout if is_remote else None,
        shadow=shadow,
    )


def _advised(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the file recommends, which options that were said come before; ``docs`` in any case."""
    if arguments.advice is None:
        return {"docs": arguments.docs}
    from ragtune.facade.advice import advised

    return advised(arguments.advice)


def _refuse(arguments: argparse.Namespace, names: list[str], allowed: str) -> None:
    if given := [name for name in names if getattr(arguments, name) is not None]:
        raise ConfigError(f"{_flag(given[0])}: allowed {allowed}")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
