"""What a caller calls a reranker, as the component that it is."""

from __future__ import annotations

import os
from typing import Any

from ragtune.core.errors import ConfigError, InputError, MissingExtraError
from ragtune.core.interfaces import BaseReranker


def reranker_for(model: Any, options: dict[str, Any]) -> BaseReranker:
    """The reranker behind a name, an address, a model or a function.

    Args:
        model: a :class:`~ragtune.core.interfaces.BaseReranker`; the address of a rerank server (``http://`` or
            ``https://``); a folder or hub name of a cross-encoder, or a loaded ``sentence_transformers.CrossEncoder``;
            or a function ``(query, texts) -> scores``.
        options: further arguments of the component. Without ``cache_dir`` (``"auto"`` or a folder), no score is kept
            on disk: texts of a running program may be anybody's.

    Raises:
        InputError: if it is none of these, or the options are not the component's.
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
        raise ConfigError(f"the reranker cannot be made: {error}") from error


def is_address(model: str) -> bool:
    """Whether this names a rerank server, not a model's folder or hub name."""
    return model.lower().startswith(("http://", "https://"))


def _made(model: Any, options: dict[str, Any]) -> BaseReranker:
    kept = {"cache_dir": None, **options}
    if isinstance(model, str) and is_address(model):
        from ragtune.rerankers.http import HttpReranker

        return HttpReranker(model, **kept)
    if isinstance(model, str) or hasattr(model, "num_labels"):
        from ragtune.rerankers.cross_encoder import CrossEncoderReranker

        return CrossEncoderReranker(model, **kept)
    if callable(model):
        from ragtune.rerankers.function import FunctionReranker

        return FunctionReranker(model, **options)
    raise InputError(
        f"a reranker of type {type(model).__name__}: allowed is a model's folder or name, a server's address, a "
        "cross-encoder, a function (query, texts) -> scores, or a component of ragtune.rerankers"
    )
