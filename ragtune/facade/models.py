"""What a caller calls a reranker, as the component that it is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ragtune.core.arguments import check_choice, check_count, check_number, did_you_mean
from ragtune.core.errors import ConfigError, InputError, MissingExtraError
from ragtune.core.interfaces import BaseReranker


def reranker_for(model: Any, options: dict[str, Any], beside: Iterable[str] = ()) -> BaseReranker:
    """The reranker behind a name, an address, a model or a function.

    Args:
        model: as :class:`~ragtune.facade.reranker.BudgetedReranker` takes it.
        options: further arguments of the component. Without ``cache_dir`` (``"auto"`` or a folder), no score is kept
            on disk: texts of a running program may be anybody's.
        beside: names that the caller takes itself, one of which may have been meant by an unknown option.

    Raises:
        InputError: if it is none of these, or the options are not the component's.

    Examples:
        >>> from ragtune.facade.models import reranker_for
        >>> type(reranker_for(lambda query, texts: [0.0] * len(texts), {})).__name__
        'FunctionReranker'
    """
    if isinstance(model, BaseReranker):
        if options:
            raise InputError(f"a {type(model).__name__} has its options already: {', '.join(options)} cannot be given")
        return model
    try:
        return _made(os.fspath(model) if isinstance(model, os.PathLike) else model, options)
    except MissingExtraError:
        raise
    except (TypeError, ValueError) as error:
        if unknown := re.search(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'", str(error)):
            kind, name = unknown.groups()
            meant = did_you_mean(name, [one for one in beside if one not in ("model", "options")])
            raise ConfigError(
                f"unknown option {name!r}: BudgetedReranker and {kind} have none of that name{meant}"
            ) from None
        raise ConfigError(f"the reranker cannot be made: {error}") from error


COMPARING = ("listwise", "setwise")
"""How a language model may be asked to compare: it orders a window, or picks the best of a small one."""


def language_model(
    name: str,
    how: str = "listwise",
    *,
    window: int | None = None,
    max_doc_tokens: int = 300,
    usd_per_1k_tokens: float = 0.0,
    cache_dir: str | Path | None = None,
    **client: Any,
) -> BaseReranker:
    """A language model that compares documents, on an OpenAI-compatible server.

    A ``listwise`` call orders up to ``window`` documents. ``setwise`` puts a window in order by several calls, so give
    it policies of small ones (``setwise_insertion``, ``knockout``).

    Args:
        name, how: the model, as the server spells it, and ``listwise`` or ``setwise``.
        window: documents a call, >= 2; None for 20, or 4 for ``setwise``.
        max_doc_tokens: tokens of a document that are shown, >= 1.
        usd_per_1k_tokens: dollars for 1,000 tokens of prompt or answer, >= 0; 0 means free, and no limit in
            dollars.
        cache_dir: where answers are kept (``"auto"`` or a folder); None keeps none.
        client: further arguments of :class:`~ragtune.llm.client.LLMClient`: ``base_url``, ``api_key_env``, ...

    Raises:
        ConfigError: on an argument out of range, or one that the client does not have.

    Examples:
        >>> from ragtune.facade.models import language_model
        >>> qwen = language_model("qwen2.5", "listwise", base_url="http://127.0.0.1:11434/v1")  # calls nothing yet
        >>> qwen.facts.compares
        True
    """
    check_choice("how a language model compares", how, COMPARING)
    rate = check_number("usd_per_1k_tokens", usd_per_1k_tokens, low=0.0)
    from ragtune.llm.client import LLMClient
    from ragtune.llm.prompts import PromptLibrary
    from ragtune.rerankers.llm.listwise import LLMListwiseReranker
    from ragtune.rerankers.llm.setwise import LLMSetwiseReranker

    options: dict[str, Any] = {"mode": "live" if cache_dir is None else "record", "cache_dir": cache_dir}
    options |= {"prices": {name: {"prompt": rate, "completion": rate}} if rate else None}
    try:
        asked = LLMClient(model=name, **(options | client)), PromptLibrary()
    except TypeError as error:
        raise ConfigError(f"the language model cannot be made: {error}") from error
    if how == "setwise":
        size: dict[str, Any] = {} if window is None else {"set_size": window}
        return LLMSetwiseReranker(*asked, max_doc_tokens=max_doc_tokens, **size)
    size = {}
    if window is not None:
        size = {"window": check_count("reranker window", window, low=2), "step": max(1, window // 2)}
    return LLMListwiseReranker(*asked, max_doc_tokens=max_doc_tokens, **size)


def is_address(model: str) -> bool:
    """Whether this names a rerank server, not a model's folder or hub name."""
    return model.lower().startswith(("http://", "https://"))


def _made(model: Any, options: dict[str, Any]) -> BaseReranker:
    kept = {"cache_dir": None, **options}
    if isinstance(model, str) and is_address(model):
        from ragtune.rerankers.http.reranker import HttpReranker

        return HttpReranker(model, **kept)
    if isinstance(model, str) or hasattr(model, "num_labels"):
        from ragtune.rerankers.models.cross_encoder import CrossEncoderReranker

        return CrossEncoderReranker(model, **kept)
    if callable(model):
        from ragtune.rerankers.function import FunctionReranker

        return FunctionReranker(model, **options)
    raise InputError(
        f"a reranker of type {type(model).__name__}: allowed is a model's folder or name, a server's address, a "
        "cross-encoder, a function (query, texts) -> scores, or a component of ragtune.rerankers"
    )
