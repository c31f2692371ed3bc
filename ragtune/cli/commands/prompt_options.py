"""Options of ``ragtune prompt``, and the pipeline's options that come of them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtune.core.errors import ConfigError

if TYPE_CHECKING:
    from ragtune.superprompt.options import PromptOptions

_OPTIONS: dict[str, list[tuple[str, str, str, type, str]]] = {
    "what is searched": [
        (
            *("corpus", "memory.folder", "DIR", Path),
            "Markdown and text files, one file, or BEIR's corpus.jsonl; without it and --collection the shipped demo",
        ),
        ("collection", "memory.collection", "NAME", str, "a collection of ragd; --corpus is searched, too"),
        (
            "dsn",
            "memory.dsn",
            "DSN",
            str,
            "its PostgreSQL server; $RAGTUNE_DSN keeps a password out of the process list",
        ),
        ("data_dir", "memory.data_dir", "DIR", Path, "folder of the embedded PostgreSQL"),
        ("embedder", "embedder.kind", "KIND", str, "tfidf, hashing, sentence_transformer, openai_compatible"),
        ("embedder_model", "embedder.model", "MODEL", str, "folder or name of the embedding model"),
        ("embedder_dims", "embedder.dims", "N", int, "length of the vectors, if you can choose"),
        ("embedder_url", "embedder.base_url", "URL", str, "OpenAI-compatible server; else $OPENAI_BASE_URL"),
    ],
    "reranker": [
        ("reranker", "reranker.kind", "KIND", str, "auto, none, cross_encoder or budgeted"),
        ("reranker_model", "reranker.model", "MODEL", str, "folder or hub name of a cross-encoder"),
        ("budget", "reranker.budget", "N", int, "chunks that budgeted may score"),
    ],
    "language model, off without --llm-model": [
        ("llm_model", "llm.model", "MODEL", str, "name of the model on the server"),
        ("llm_base_url", "llm.base_url", "URL", str, "OpenAI-compatible server; else $OPENAI_BASE_URL"),
        ("llm_mode", "llm.mode", "MODE", str, "live, record or replay; default: record"),
        ("llm_key_env", "llm.api_key_env", "NAME", str, "variable with the key; default: OPENAI_API_KEY"),
    ],
}
"""Options by heading: the name, the option of the configuration that it sets, what stands for its value, and help."""

_SETS = {"agents": "agents"} | {name: sets for rows in _OPTIONS.values() for name, sets, *_ in rows}


def add_pipeline_options(parser: argparse.ArgumentParser) -> None:
    """Options of :func:`pipeline_options`."""
    config = parser.add_argument_group("configuration", "Options below stand over --set, and that over the file.")
    config.add_argument("--config", metavar="FILE", type=Path, help="YAML or JSON with any option of --print-config")
    config.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="set one option; repeatable")
    config.add_argument("--print-config", action="store_true", help="print all; docs/prompt-options.yaml explains them")
    config.add_argument("--limits", metavar="NAME=N", action="append", default=[], help="another limit; repeatable")
    config.add_argument("--agents", metavar="DIR", type=Path, help="agents' files, which replace the packaged ones")
    for heading, rows in _OPTIONS.items():
        group = parser.add_argument_group(heading)
        for name, _, metavar, kind, meaning in rows:
            group.add_argument(_flag(name), metavar=metavar, type=kind, help=meaning)


def pipeline_options(arguments: argparse.Namespace) -> PromptOptions:
    """The options: the file's, over them single ones, over them those of the command line.

    Raises:
        ConfigError: if one is unknown, not allowed, or would be ignored.
    """
    from ragtune.superprompt.options import load_options
    from ragtune.superprompt.options import nested, parse_change

    given = {name: value for name in _SETS if (value := getattr(arguments, name)) is not None}
    flat: dict[str, Any] = {_SETS[name]: value for name, value in given.items()}
    changes = [*map(parse_change, arguments.set), {"limits": dict(map(_parse_limit, arguments.limits))}, nested(flat)]
    options = load_options(arguments.config, *changes)
    _require_followed(given, options)
    return options


_EMBEDDERS = {
    "embedder_model": ("sentence_transformer", "openai_compatible"),
    "embedder_url": ("openai_compatible",),
    "embedder_dims": ("hashing", "openai_compatible"),
}
_RERANKERS = {"reranker_model": ("cross_encoder", "budgeted"), "budget": ("budgeted",)}


def _require_followed(given: dict[str, Any], options: PromptOptions) -> None:
    """Refuse what would be ignored."""
    llm = [_flag(name) for name in given if name.startswith("llm_")]
    if llm and options.llm.model is None:
        raise ConfigError(f"{', '.join(llm)}: allowed with --llm-model only")
    if ("dsn" in given or "data_dir" in given) and options.memory.collection is None:
        raise ConfigError("--dsn and --data-dir: allowed with --collection only")
    for option, chosen, kinds in (
        ("--embedder", options.embedder.kind, _EMBEDDERS),
        ("--reranker", options.reranker.kind, _RERANKERS),
    ):
        for name, allowed in kinds.items():
            if name in given and chosen not in allowed:
                raise ConfigError(f"{_flag(name)}: allowed with {option} {' or '.join(allowed)} only")


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
