"""Options of ``ragtune prompt``, and the pipeline's options that come of them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtune.core.errors import ConfigError

if TYPE_CHECKING:
    from ragtune.superprompt.options import PromptOptions

_NAMES = {
    "corpus": "memory.folder",
    "collection": "memory.collection",
    "dsn": "memory.dsn",
    "data_dir": "memory.data_dir",
    "embedder": "embedder.kind",
    "embedder_model": "embedder.model",
    "embedder_dims": "embedder.dims",
    "embedder_url": "embedder.base_url",
    "reranker": "reranker.kind",
    "reranker_model": "reranker.model",
    "budget": "reranker.budget",
    "agents": "agents",
    "llm_model": "llm.model",
    "llm_base_url": "llm.base_url",
    "llm_mode": "llm.mode",
    "llm_key_env": "llm.api_key_env",
}
"""The options that stand for one of the configuration each."""


def add_pipeline_options(parser: argparse.ArgumentParser) -> None:
    """Options of :func:`pipeline_options`."""
    config = parser.add_argument_group("configuration", "Options below stand over --set, and that over the file.")
    config.add_argument("--config", metavar="FILE", type=Path, help="YAML or JSON with any option of --print-config")
    config.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="set one option; repeatable")
    config.add_argument("--print-config", action="store_true", help="print all; docs/prompt-options.yaml explains them")
    config.add_argument("--limits", metavar="NAME=N", action="append", default=[], help="another limit; repeatable")
    config.add_argument("--agents", metavar="DIR", type=Path, help="agents' files, which replace the packaged ones")
    memory = parser.add_argument_group("what is searched")
    memory.add_argument(
        "--corpus",
        metavar="DIR",
        type=Path,
        help="Markdown and text files, one file, or BEIR's corpus.jsonl; without it and --collection the shipped demo",
    )
    memory.add_argument("--collection", metavar="NAME", help="a collection of ragd; --corpus is searched, too")
    memory.add_argument("--dsn", help="its PostgreSQL server; $RAGTUNE_DSN keeps a password out of the process list")
    memory.add_argument("--data-dir", metavar="DIR", type=Path, help="folder of the embedded PostgreSQL")
    memory.add_argument("--embedder", metavar="KIND", help="tfidf, hashing, sentence_transformer, openai_compatible")
    memory.add_argument("--embedder-model", metavar="MODEL", help="folder or name of the embedding model")
    memory.add_argument("--embedder-dims", metavar="N", type=int, help="length of the vectors, if you can choose")
    memory.add_argument("--embedder-url", metavar="URL", help="OpenAI-compatible server; else $OPENAI_BASE_URL")
    reranker = parser.add_argument_group("reranker")
    reranker.add_argument("--reranker", metavar="KIND", help="auto, none, cross_encoder or budgeted")
    reranker.add_argument("--reranker-model", metavar="MODEL", help="folder or hub name of a cross-encoder")
    reranker.add_argument("--budget", metavar="N", type=int, help="chunks that budgeted may score")
    llm = parser.add_argument_group("language model, off without --llm-model")
    llm.add_argument("--llm-model", metavar="MODEL", help="name of the model on the server")
    llm.add_argument("--llm-base-url", metavar="URL", help="OpenAI-compatible server; else $OPENAI_BASE_URL")
    llm.add_argument("--llm-mode", metavar="MODE", help="live, record or replay; default: record")
    llm.add_argument("--llm-key-env", metavar="NAME", help="variable with the key; default: OPENAI_API_KEY")


def pipeline_options(arguments: argparse.Namespace) -> PromptOptions:
    """The options: the file's, over them single ones, over them those of the command line.

    Raises:
        ConfigError: if one is unknown, not allowed, or would be ignored.
    """
    from ragtune.superprompt.options import load_options
    from ragtune.superprompt.options.reading import nested, parse_change

    given = {name: value for name in _NAMES if (value := getattr(arguments, name)) is not None}
    flat: dict[str, Any] = {_NAMES[name]: value for name, value in given.items()}
    changes = [*map(parse_change, arguments.set), {"limits": dict(map(_parse_limit, arguments.limits))}, nested(flat)]
    options = load_options(arguments.config, *changes)
    _require_followed(given, options)
    return options


def _require_followed(given: dict[str, Any], options: PromptOptions) -> None:
    """Refuse what would be ignored."""
    is_reranked = options.reranker.kind in ("cross_encoder", "budgeted")
    llm = [_flag(name) for name in given if name.startswith("llm_")]
    if llm and options.llm.model is None:
        raise ConfigError(f"{', '.join(llm)}: allowed with --llm-model only")
    if "reranker_model" in given and not is_reranked:
        raise ConfigError("--reranker-model: allowed with --reranker cross_encoder or budgeted only")
    if "budget" in given and options.reranker.kind != "budgeted":
        raise ConfigError("--budget: allowed with --reranker budgeted only")
    if ("dsn" in given or "data_dir" in given) and options.memory.collection is None:
        raise ConfigError("--dsn and --data-dir: allowed with --collection only")
    if "embedder_model" in given and options.embedder.kind not in ("sentence_transformer", "openai_compatible"):
        raise ConfigError("--embedder-model: allowed with --embedder sentence_transformer or openai_compatible only")
    if "embedder_url" in given and options.embedder.kind != "openai_compatible":
        raise ConfigError("--embedder-url: allowed with --embedder openai_compatible only")
    if "embedder_dims" in given and options.embedder.kind not in ("hashing", "openai_compatible"):
        raise ConfigError("--embedder-dims: allowed with --embedder hashing or openai_compatible only")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _parse_limit(text: str) -> tuple[str, int | float]:
    """``N1_RETR_MAX_CANDIDATES=50`` as name and number."""
    name, _, value = text.partition("=")
    try:
        number = float(value)
        return name.strip(), int(value) if number.is_integer() and "." not in value else number
    except (ValueError, OverflowError):
        raise ConfigError(f"limit {text!r}: expected NAME=NUMBER, e.g. N1_RETR_MAX_CANDIDATES=50") from None
