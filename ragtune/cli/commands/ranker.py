"""The rerank API's part of ``ragtune serve`` and ``ragtune mcp``: its options, and what it works on."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtune.cli.commands import in_time
from ragtune.core.arguments import check_number
from ragtune.core.errors import ConfigError
from ragtune.core.policy.defaults import AUTO, BATCH_SIZE, RETRY_AFTER_S, TRUST
from ragtune.core.units import UNITS

if TYPE_CHECKING:
    from ragtune.core.interfaces import BaseReranker
    from ragtune.embedders.passages import Passages
    from ragtune.rerankers.calibration import Calibration
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
_SHADOW = ["shadow_file", "learn", "learn_loss"]
_UPSTREAM_CALLS = 32  # calls of a rerank server or a language model that are under way at once, by default
_SHARE_OF_TIME = 0.9  # of --timeout until a request has its answer, however far its model has come


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
    for name, (_, kind, meaning) in [*_LLM.items(), *_UPSTREAM.items()]:
        if kind is bool:
            group.add_argument(_flag(name), action="store_const", const=True, help=meaning)
        else:
            group.add_argument(_flag(name), metavar="X", type=kind, help=meaning)
    group.add_argument(
        "--upstream-concurrency",
        metavar="N",
        type=int,
        help=f"concurrent calls of the server or the language model; default: {_UPSTREAM_CALLS}",
    )
    group.add_argument(
        "--retry-after",
        metavar="S",
        type=float,
        default=RETRY_AFTER_S,
        help="seconds after which a model that failed is tried again, by one request",
    )
    group.add_argument("--max-length", metavar="N", type=int, help="tokens of query and document that the model sees")
    group.add_argument("--usd-per-1k-tokens", metavar="X", type=float, help="dollars, for budgets and answers")
    group.add_argument(
        "--architecture", metavar="SIZE", help="the model's size, for FLOPs: auto reads its configuration"
    )
    group.add_argument(
        "--dtype",
        metavar="TYPE",
        help="number type of a local model: fp32, bfloat16, int8, or auto (default): bfloat16 on a processor made for "
        "it, else fp32; ragtune drift measures what it changes",
    )
    group.add_argument("--backend", metavar="NAME", help="what runs it: torch, or onnx, by default for int8 only")
    group.add_argument("--score-cache", metavar="DIR", type=Path, help="folder of cached scores; default: no cache")
    group.add_argument("--score-cache-ttl", metavar="S", type=float, help="seconds until a cached score is forgotten")
    for prefix, addition in (("", ""), ("max_", ", also for a request that asks for more")):
        for unit in UNITS:
            kind = int if unit.is_count else float
            meaning = f"{unit.noun} a query{addition}"
            group.add_argument(_flag(prefix + unit.short), metavar="N", type=kind, help=meaning)
    group.add_argument("--advice", metavar="FILE", type=Path, help="advice.json of ragtune advise")
    group.add_argument(
        "--policy",
        help="by scores: uncertainty (default), settled, early_stop, gate, fixed_depth, interpolated_fixed_depth; by "
        "comparisons: plackett_luce (default with --llm), sliding, tdpart, tourrank, acurank, blitzrank, realm, "
        "ts_setrank, setwise_insertion, jointrank, knockout, active_prp",
    )
    group.add_argument(
        "--batch-size",
        metavar="N",
        type=int,
        help=f"documents per call; default: {BATCH_SIZE}, or the window of a policy that compares",
    )
    group.add_argument(
        "--trust",
        metavar="X",
        type=number_or_auto,
        help=f"0: order of first stages and signals, 1: the model's, auto: what requests show; default: {TRUST}",
    )
    group.add_argument(
        "--calibration", metavar="FILE", type=Path, help="file of ragtune calibrate: scores become probabilities"
    )
    group.add_argument(
        "--passages",
        metavar="N",
        type=int,
        help="read documents of more than N tokens in passages of N, which count as documents; default: whole",
    )
    group.add_argument(
        "--passages-most", metavar="N", type=int, help="passages of a document that may be read; default: all"
    )
    in_time.add_options(parser)
    shadow = parser.add_argument_group(
        "shadow", "What the budget loses, measured on your own requests: ragtune shadow report shows it."
    )
    shadow.add_argument(
        "--shadow", metavar="SHARE", type=float, help="share of requests with a budget that are also reranked in full"
    )
    shadow.add_argument("--shadow-file", metavar="FILE", type=Path, help="file for their figures, without any text")
    shadow.add_argument(
        "--learn", metavar="FILE", type=Path, help="choose the budget from these requests; FILE has the evidence"
    )
    shadow.add_argument("--learn-loss", metavar="X", type=float, help="mean loss that --learn allows; default: 0.06")


def make_ranker(arguments: argparse.Namespace) -> AbstractContextManager[RerankServer | None]:
    """What the rerank API works on, its model loaded; None without ``--model``."""
    budget = {unit.short: getattr(arguments, unit.short) for unit in UNITS}
    caps = {unit.short: getattr(arguments, f"max_{unit.short}") for unit in UNITS}
    if arguments.model is None:
        theirs = [*budget, *(f"max_{unit}" for unit in caps), *_UPSTREAM, *_LLM, *_COMMON]
        theirs += [*_LOCAL, "upstream_concurrency", "advice", "score_cache", "score_cache_ttl", "calibration"]
        theirs += ["passages", "passages_most"]
        theirs += ["shadow", *_SHADOW, "fallback", "usage"]
        _refuse(arguments, theirs, "with --model only")
        return nullcontext()
    if arguments.shadow is None:
        _refuse(arguments, _SHADOW, "with --shadow only")
    if arguments.learn is None:
        _refuse(arguments, ["learn_loss"], "with --learn only")
    else:
        _refuse(arguments, ["docs"], "without --learn only; --max-docs limits a request")
    if arguments.score_cache is None:
        _refuse(arguments, ["score_cache_ttl"], "with --score-cache only")
    from ragtune.core.batches.failures import FailurePolicy
    from ragtune.rerankers._cached import CachedReranker
    from ragtune.services.rerank import RerankServer
    from ragtune.services.shadow import ShadowOptions

    retry_s = check_number("--retry-after", arguments.retry_after, low=0.0)
    reranker, is_remote = _make_reranker(arguments)
    if isinstance(reranker, CachedReranker) and arguments.score_cache_ttl is not None:
        reranker.expire_after(check_number("--score-cache-ttl", arguments.score_cache_ttl, low=0.0))
    learned = {} if arguments.learn_loss is None else {"tolerance": arguments.learn_loss}
    files = arguments.shadow_file, arguments.learn
    shadow = None if arguments.shadow is None else ShadowOptions(arguments.shadow, *files, **learned)
    by_kind = {} if arguments.llm is None else {"policy": "plackett_luce"}  # a place in a window is no score
    policy = by_kind | _advised(arguments) | _said(arguments, ("docs", "policy", "batch_size", "trust"))
    budget["docs"] = policy.pop("docs", None)
    model = arguments.upstream_model or arguments.model
    with nullcontext() if is_remote else _progress(f"loading {model}"):
        return RerankServer(
            reranker,
            model,
            budget=budget,
            caps=caps,
            failures=FailurePolicy(retry_after_s=retry_s),
            **policy,
            max_documents=arguments.max_batch,
            # A server takes one query a call, and several calls at once: there is nothing to share.
            is_local=not is_remote,
            time_s=_SHARE_OF_TIME * arguments.timeout,
            fallbacks=in_time.make_fallbacks(arguments, _calls(arguments)),
            usage=in_time.make_usage(arguments),
            shadow=shadow,
            calibration=_calibration(arguments.calibration, model),
            passages=_passages(arguments),
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


def _passages(arguments: argparse.Namespace) -> Passages | None:
    if arguments.passages is None:
        _refuse(arguments, ["passages_most"], "with --passages only")
        return None
    from ragtune.embedders.passages import Passages

    return Passages(arguments.passages, arguments.passages_most)


def _calibration(file: Path | None, model: str) -> Calibration | None:
    if file is None:
        return None
    from ragtune.rerankers.calibration import Calibration

    found = Calibration.load(file)
    if found.model != model:
        sys.stderr.write(f"ragtune: warning: {file} is for the model {found.model!r}, and this one is {model!r}\n")
    return found


def _make_reranker(arguments: argparse.Namespace) -> tuple[BaseReranker, bool]:
    from ragtune.facade.models import is_address, language_model, reranker_for

    options = {"cache_dir": arguments.score_cache} | _said(arguments, (*_COMMON, *_LOCAL))
    if arguments.llm is not None:
        _refuse(arguments, [*_UPSTREAM, *_LOCAL, "score_cache_ttl"], "without --llm only")
        if "max_length" in options:
            options["max_doc_tokens"] = options.pop("max_length")
        options |= {_LLM[name][0]: value for name, value in _said(arguments, _LLM).items()}
        return language_model(arguments.model, **options, window=arguments.batch_size, **_calls(arguments)), True
    _refuse(arguments, list(_LLM), "with --llm only")
    if not is_address(arguments.model):
        _refuse(arguments, [*_UPSTREAM, "upstream_concurrency"], "where --model is the address of a rerank server")
        return reranker_for(arguments.model, {"dtype": "auto"} | options), False
    _refuse(arguments, [*_LOCAL], "where --model is a model, not an address")
    options |= _calls(arguments) | {_UPSTREAM[name][0]: value for name, value in _said(arguments, _UPSTREAM).items()}
    return reranker_for(arguments.model, options), True


def _calls(arguments: argparse.Namespace) -> dict[str, Any]:
    named = arguments.upstream_concurrency
    return {
        "timeout_s": arguments.timeout,
        "concurrency": _UPSTREAM_CALLS if named is None else named,
        "breaker_cooldown_s": arguments.retry_after,
    }


def _said(arguments: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(arguments, name)) is not None}


def number_or_auto(text: str) -> float | str:
    """The value of ``--trust``."""
    return text if text == AUTO else float(text)


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
