"""The rerank API's part of ``ragtune serve`` and ``ragtune mcp``: its options, and what it works on."""

from __future__ import annotations

import argparse
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtune.cli.dispatch import flag, refuse
from ragtune.core.arguments import check_choice, check_number
from ragtune.core.batches.failures import FailurePolicy
from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.policy.defaults import AUTO, BATCH_SIZE, RETRY_AFTER_S, TRUST
from ragtune.core.units import UNITS
from ragtune.embedders.passages import Passages
from ragtune.facade.advice import advised
from ragtune.facade.models import COMPARING, is_address, language_model, reranker_for
from ragtune.llm.credentials import named_key
from ragtune.rerankers._cached import CachedReranker
from ragtune.rerankers.calibration import Calibration
from ragtune.services.chain import Model
from ragtune.services.shadow import ShadowOptions
from ragtune.services.usage import UNITS as COUNTED
from ragtune.services.usage import KeyUsage

if TYPE_CHECKING:
    from ragtune.services.rerank import RerankServer

_UPSTREAM = {
    "upstream_model": ("model", str, "model that the rerank server is asked for"),
    "upstream_dialect": ("dialect", str, "its dialect: cohere (default), jina, vllm, tei, infinity, ragtune, voyage"),
    "upstream_scale": ("scale", str, "what its scores are: identity, in [0, 1], or logit, as llama.cpp's"),
    "upstream_key_env": ("api_key_env", str, "NAME of the variable with its key"),
    "usd_per_search_unit": ("usd_per_search_unit", float, "dollars for a call with up to 100 documents"),
    "upstream_redirects": ("follow_redirects", bool, "send query and documents on to where it redirects them"),
}
"""Options that only a rerank server has: the component's name of each, its type, and its meaning."""

_LLM = {
    "llm": ("how", str, "listwise or setwise: --model is a language model that orders documents, or picks the best"),
    "llm_base_url": ("base_url", str, "its OpenAI-compatible server; else $OPENAI_BASE_URL"),
    "llm_key_env": ("api_key_env", str, "NAME of the variable with its key; default: OPENAI_API_KEY"),
    "llm_thinking_tokens": ("thinking_tokens", int, "tokens of reasoning before an answer; default: 4096"),
}
"""Options that only a language model has: the argument of each, its type, and its meaning."""

_COMMON = ("max_length", "usd_per_1k_tokens")
_LOCAL = ("architecture", "dtype", "backend")  # of a model that runs in this process
_UPSTREAM_CALLS = 32  # calls of a rerank server or a language model that are under way at once, by default
_NUMBERS = {"usd_per_search_unit": float, "usd_per_1k_tokens": float, "max_length": int, "batch_size": int}
"""Arguments of a fallback that are no texts."""

_SHARE_OF_TIME = 0.9  # of --timeout until a request has its answer, however far its model has come


def number_or_auto(text: str) -> float | str:
    """The value of ``--trust``."""
    return text if text == AUTO else float(text)


_Options = dict[str, tuple[Callable[[str], Any], str]]
_METAVARS = {int: "N", float: "X", str: "NAME", Path: "PATH", number_or_auto: "X"}

_RERANK: _Options = {
    **{name: (kind, meaning) for name, (_, kind, meaning) in (_LLM | _UPSTREAM).items()},
    "retry_after": (float, f"seconds until one request tries a model again that failed; default: {RETRY_AFTER_S}"),
    "upstream_concurrency": (int, f"concurrent calls of the server or the language model; default: {_UPSTREAM_CALLS}"),
    "max_length": (int, "tokens of query and document that the model sees"),
    "usd_per_1k_tokens": (float, "dollars, for budgets and answers"),
    "architecture": (str, "the model's size, for FLOPs: auto reads its configuration"),
    "dtype": (
        str,
        "number type of a local model: fp32, bfloat16, int8, or auto (default): bfloat16 on a processor made for it, "
        "else fp32; ragtune drift measures what it changes",
    ),
    "backend": (str, "what runs it: torch, or onnx, by default for int8 only"),
    "score_cache": (Path, "folder of cached scores; default: no cache"),
    "score_cache_ttl": (float, "seconds until a cached score is forgotten"),
    **{
        prefix + unit.short: (int if unit.is_count else float, f"{unit.noun} a query{addition}")
        for prefix, addition in (("", ""), ("max_", ", also for a request that asks for more"))
        for unit in UNITS
    },
    "advice": (Path, "advice.json of ragtune advise"),
    "policy": (
        str,
        "by scores: uncertainty (default), settled, early_stop, gate, fixed_depth, interpolated_fixed_depth; by "
        "comparisons: plackett_luce (default with --llm), sliding, tdpart, tourrank, acurank, blitzrank, realm, "
        "ts_setrank, setwise_insertion, jointrank, knockout, active_prp",
    ),
    "batch_size": (int, f"documents per call; default: {BATCH_SIZE}, or the window of a policy that compares"),
    "trust": (
        number_or_auto,
        f"0: order of first stages and signals, 1: the model's, auto: what requests show; default: {TRUST}",
    ),
    "calibration": (Path, "file of ragtune calibrate: scores become probabilities"),
    "passages": (
        int,
        "read documents of more than N tokens in passages of N, which count as documents; default: whole",
    ),
    "passages_most": (int, "passages of a document that may be read; default: all"),
}
_DAILY: _Options = {
    "usage": (Path, "SQLite file that counts what each key uses on a day"),
    "over_limit": (str, "what a key over its limit gets: first-stage, its order (default), or 429"),
    "key_docs": (int, "documents of a key on a day (UTC)"),
    "key_calls": (int, "calls of a key on a day (UTC)"),
    "key_usd": (float, "dollars of a key on a day (UTC)"),
}
_SHADOW: _Options = {
    "shadow": (float, "share of requests with a budget that are also reranked in full"),
    "shadow_file": (Path, "file for their figures, without any text"),
    "learn": (Path, "choose the budget from these requests; the file has the evidence"),
    "learn_loss": (float, "mean loss that --learn allows; default: 0.06"),
}
_NEEDS = (
    dict.fromkeys(("fallback", *_RERANK, *_DAILY, *_SHADOW), "model")
    | dict.fromkeys(("llm_base_url", "llm_key_env", "llm_thinking_tokens"), "llm")
    | dict.fromkeys(("key_docs", "key_calls", "key_usd", "over_limit"), "usage")
    | {"shadow_file": "shadow", "learn": "shadow", "learn_loss": "learn"}
    | {"score_cache_ttl": "score_cache", "passages_most": "passages"}
)
"""The option that each one is of no use without."""


def add_rerank_options(parser: argparse.ArgumentParser) -> None:
    """Options of :func:`make_ranker`."""
    group = parser.add_argument_group(
        "rerank API",
        "/v1/rerank, /v2/rerank, /rerank and /score, as Cohere's, Jina's, TEI's, vLLM's, Infinity's and Voyage's. "
        "Limits are those of a query that names none of its own; without any, all documents are reranked.",
    )
    group.add_argument(
        "--model",
        metavar="MODEL",
        help="cross-encoder (folder or hub name), address of a rerank server, or with --llm a language model's name",
    )
    _add(group, _RERANK)
    group = parser.add_argument_group("fallbacks and limits")
    group.add_argument(
        "--fallback",
        metavar="'MODEL [NAME=VALUE ...]'",
        action="append",
        help="model for requests that --model scores nothing of; repeatable, and the first stage's order is the last "
        "one. NAME: for an address model, dialect, scale, api_key_env, usd_per_search_unit, batch_size; for a local "
        "one dtype; for all max_length, usd_per_1k_tokens",
    )
    _add(group, _DAILY)
    about = "What the budget loses, measured on your own requests: ragtune shadow report shows it."
    _add(parser.add_argument_group("shadow", about), _SHADOW)


def _add(group: argparse._ArgumentGroup, options: _Options) -> None:
    for name, (kind, meaning) in options.items():
        if kind is bool:
            group.add_argument(flag(name), action="store_const", const=True, help=meaning)
        else:
            group.add_argument(flag(name), metavar=_METAVARS[kind], type=kind, help=meaning)


def make_ranker(arguments: argparse.Namespace) -> AbstractContextManager[RerankServer | None]:
    """What the rerank API works on, its model loaded; None without ``--model``."""
    for name, needed in _NEEDS.items():
        if getattr(arguments, needed) is None:
            refuse(arguments, [name], f"with {flag(needed)} only")
    if arguments.model is None:
        return nullcontext()
    for name in ("upstream_key_env", "llm_key_env"):
        if (variable := getattr(arguments, name)) is not None:
            named_key(flag(name), variable)
    if arguments.learn is not None:
        refuse(arguments, ["docs"], "without --learn only; --max-docs limits a request")
    from ragtune.services.rerank import RerankServer

    retry_s = RETRY_AFTER_S if arguments.retry_after is None else arguments.retry_after
    arguments.retry_after = check_number("--retry-after", retry_s, low=0.0)
    reranker, is_remote = _make_reranker(arguments)
    if isinstance(reranker, CachedReranker) and arguments.score_cache_ttl is not None:
        reranker.expire_after(check_number("--score-cache-ttl", arguments.score_cache_ttl, low=0.0))
    learned = {} if arguments.learn_loss is None else {"tolerance": arguments.learn_loss}
    files = arguments.shadow_file, arguments.learn
    policy: dict[str, Any] = {}
    if arguments.llm is not None:
        policy["policy"] = "plackett_luce"  # a place in a window is no score
    policy |= {} if arguments.advice is None else advised(arguments.advice)
    policy |= _said(arguments, ("docs", "policy", "batch_size", "trust"))
    budget = {unit.short: getattr(arguments, unit.short) for unit in UNITS} | {"docs": policy.pop("docs", None)}
    model = arguments.upstream_model or arguments.model
    with nullcontext() if is_remote else _progress(f"loading {model}"):
        return RerankServer(
            reranker,
            model,
            budget=budget,
            caps={unit.short: getattr(arguments, f"max_{unit.short}") for unit in UNITS},
            failures=FailurePolicy(retry_after_s=arguments.retry_after),
            **policy,
            max_documents=arguments.max_batch,
            # A server takes one query a call, and several calls at once: there is nothing to share.
            is_local=not is_remote,
            time_s=_SHARE_OF_TIME * arguments.timeout,
            fallbacks=_make_fallbacks(arguments),
            usage=_make_usage(arguments),
            shadow=None if arguments.shadow is None else ShadowOptions(arguments.shadow, *files, **learned),
            calibration=_calibration(arguments.calibration, model),
            passages=None if arguments.passages is None else Passages(arguments.passages, arguments.passages_most),
        )


@contextmanager
def _progress(what: str) -> Iterator[None]:
    """Tell on standard error what is done, every five seconds that it still is, and how long it took."""
    begun, is_done = time.monotonic(), threading.Event()

    def tell() -> None:
        while not is_done.wait(5.0):
            sys.stderr.write(f"ragtune: still {what}, {time.monotonic() - begun:.0f} s\n")

    sys.stderr.write(f"ragtune: {what}\n")
    threading.Thread(target=tell, daemon=True).start()
    try:
        yield
    finally:
        is_done.set()
    sys.stderr.write(f"ragtune: {what} took {time.monotonic() - begun:.1f} s\n")


def _calibration(file: Path | None, model: str) -> Calibration | None:
    if file is None:
        return None
    found = Calibration.load(file)
    if found.model != model:
        sys.stderr.write(f"ragtune: warning: {file} is for the model {found.model!r}, and this one is {model!r}\n")
    return found


def _make_reranker(arguments: argparse.Namespace) -> tuple[BaseReranker, bool]:
    options = {"cache_dir": arguments.score_cache} | _said(arguments, (*_COMMON, *_LOCAL))
    if arguments.llm is not None:
        check_choice("--llm", arguments.llm, COMPARING)
        refuse(arguments, [*_UPSTREAM, *_LOCAL, "score_cache_ttl"], "without --llm only")
        if "max_length" in options:
            options["max_doc_tokens"] = options.pop("max_length")
        options |= {_LLM[name][0]: value for name, value in _said(arguments, _LLM).items()}
        return language_model(arguments.model, **options, window=arguments.batch_size, **_calls(arguments)), True
    if not is_address(arguments.model):
        refuse(arguments, [*_UPSTREAM, "upstream_concurrency"], "where --model is the address of a rerank server")
        return reranker_for(arguments.model, {"dtype": "auto"} | options), False
    refuse(arguments, [*_LOCAL], "where --model is a model, not an address")
    options |= _calls(arguments) | {_UPSTREAM[name][0]: value for name, value in _said(arguments, _UPSTREAM).items()}
    return reranker_for(arguments.model, options), True


def _calls(arguments: argparse.Namespace) -> dict[str, Any]:
    named = arguments.upstream_concurrency
    return {
        "timeout_s": arguments.timeout,
        "concurrency": _UPSTREAM_CALLS if named is None else named,
        "breaker_cooldown_s": arguments.retry_after,
    }


def _make_fallbacks(arguments: argparse.Namespace) -> list[Model]:
    found = []
    for text in arguments.fallback or ():
        try:
            model, *pairs = shlex.split(text) or [""]
            if not model:
                raise ValueError("no model")
            named = dict(pair.partition("=")[::2] for pair in pairs)
            options = {name: _NUMBERS.get(name, str)(value) for name, value in named.items()}
        except ValueError as error:
            allowed = f"MODEL NAME=VALUE ..., with numbers for {', '.join(_NUMBERS)}"
            raise ConfigError(f"--fallback {text}: cannot be read ({error}); allowed is {allowed}") from None
        is_remote = is_address(model)
        own = _calls(arguments) if is_remote else {"dtype": "auto"}
        reranker = reranker_for(model, {"cache_dir": arguments.score_cache} | own | options)
        found.append(Model(named.get("model", model), reranker, is_local=not is_remote))
    return found


def _make_usage(arguments: argparse.Namespace) -> KeyUsage | None:
    if arguments.usage is None:
        return None
    beyond = check_choice("--over-limit", arguments.over_limit or "first-stage", ("first-stage", "429"))
    named = {unit: getattr(arguments, f"key_{unit}") for unit in COUNTED}
    limits = {unit: limit for unit, limit in named.items() if limit is not None}
    for unit, limit in limits.items():
        check_number(f"--key-{unit}", limit, low=0.0)
    return KeyUsage(arguments.usage, limits, refuses=beyond == "429")


def _said(arguments: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(arguments, name)) is not None}
