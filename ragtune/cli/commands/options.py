"""Options that several commands have: where collections are, what embeds and reranks, how much is allowed."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ragtune.canonical.service import RagService
from ragtune.canonical.store.base import BaseDatabase, BaseStore
from ragtune.canonical.store.embedded import connect
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.core.arguments import check_count
from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseEmbedder, BaseReranker
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.embedders.openai_compatible import OpenAICompatibleEmbedder
from ragtune.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtune.llm.client import LLMClient
from ragtune.rerankers.models.bi_encoder import BiEncoderReranker
from ragtune.rerankers.models.cross_encoder import CrossEncoderReranker
from ragtune.services.limits import ServerLimits

_EMBEDDERS = ("hashing", "sentence_transformer", "openai_compatible")
_RERANKERS = ("cross_encoder", "hashing")


def add_store_options(parser: argparse.ArgumentParser, embedder: str | None = None) -> None:
    """Options of :func:`open_store`; without a default for ``embedder``, a collection's own is taken."""
    store = parser.add_argument_group("store")
    store.add_argument("--dsn", help="PostgreSQL server; $RAGTUNE_DSN keeps a password out of the process list")
    store.add_argument("--data-dir", type=Path, help="folder of the embedded PostgreSQL, used without a DSN")
    models = parser.add_argument_group("embedder")
    own = "" if embedder else "; default: the collection's own, for a new one hashing"
    models.add_argument(
        "--embedder", choices=_EMBEDDERS, default=embedder, help=f"hashing compares words, not meanings{own}"
    )
    models.add_argument("--embedder-model", metavar="MODEL", help="folder or name of the embedding model")


def add_service_options(parser: argparse.ArgumentParser) -> None:
    """Options of :func:`make_service` and :func:`make_limits`."""
    add_store_options(parser, "hashing")
    models = parser.add_argument_group("server")
    models.add_argument(
        "--store",
        choices=("postgres", "memory"),
        help="memory: nothing on disk; default: postgres, with --model not before a collection is asked for",
    )
    models.add_argument("--reranker", choices=_RERANKERS, help="the reranker for clients; hashing needs no model")
    models.add_argument("--reranker-model", metavar="MODEL", help="folder or name of the reranking model")
    limits = parser.add_argument_group("limits")
    limits.add_argument("--max-batch", metavar="N", type=int, default=1000, help="texts, chunks, documents, candidates")
    limits.add_argument(
        "--timeout", metavar="S", type=float, default=30.0, help="seconds for a request, and for a database statement"
    )
    limits.add_argument(
        "--threads", metavar="N", type=int, default=8, help="queries, writes, large requests: N of each"
    )


def make_service(arguments: argparse.Namespace) -> RagService:
    """The service that the options describe, with loaded models and an open database."""
    max_batch = check_count("--max-batch", arguments.max_batch, low=1)
    embedders = {arguments.embedder: make_embedder(arguments)}
    rerankers = _make_rerankers(arguments)
    for part in (*embedders.values(), *rerankers.values()):
        part.prepare()
    database = (lambda: _connect(arguments)) if is_lazy(arguments) else _connect(arguments)
    return RagService(database, embedders, rerankers, max_batch, timeout_s=arguments.timeout)


@contextmanager
def open_store(arguments: argparse.Namespace, *, create: bool = False) -> Iterator[BaseStore]:
    """The collection that the options name, with the given embedder or its own."""
    with _postgres(arguments) as database:
        kept = database.settings(arguments.collection).get("embedder", {})
        if arguments.embedder is None:
            arguments.embedder = kept.get("kind", "hashing")
            arguments.embedder_model = arguments.embedder_model or kept.get("model")
        embedder = make_embedder(arguments)
        analyzer = getattr(arguments, "analyzer", None)
        store = database.open(arguments.collection, embedder, create=create, analyzer=analyzer)
        if create and not kept:
            model = arguments.embedder_model
            folder = Path(model or "").expanduser()
            kept_as = str(folder.resolve()) if model and folder.is_dir() else model
            store.save_settings({"embedder": {"kind": arguments.embedder, "model": kept_as}})
        yield store


def make_limits(arguments: argparse.Namespace, **others: int) -> ServerLimits:
    """The limits of the server that the options describe."""
    return ServerLimits(timeout_s=arguments.timeout, threads=arguments.threads, **others)


def is_lazy(arguments: argparse.Namespace) -> bool:
    """Whether the store is for those who ask for a collection: the server reranks, and no store was named."""
    return arguments.model is not None and not (arguments.store or arguments.dsn or arguments.data_dir)


def _connect(arguments: argparse.Namespace) -> BaseDatabase:
    if arguments.store != "memory":
        limits = make_limits(arguments)
        return _postgres(arguments, pool_size=limits.connections, statement_timeout_s=limits.timeout_s)
    if arguments.dsn or arguments.data_dir:
        raise ConfigError("--dsn and --data-dir: allowed with --store postgres only")
    return MemoryDatabase()


def _postgres(arguments: argparse.Namespace, **limits: Any) -> BaseDatabase:
    if arguments.dsn and arguments.data_dir:
        raise ConfigError("--dsn and --data-dir: allowed is one of them")
    return connect(arguments.dsn, arguments.data_dir, **limits)


def make_embedder(arguments: argparse.Namespace) -> BaseEmbedder:
    """The embedder that ``--embedder`` and ``--embedder-model`` describe."""
    kind, model = arguments.embedder, arguments.embedder_model
    _check_model("--embedder", kind, model, _EMBEDDERS)
    if kind == "hashing":
        return HashingEmbedder()
    if kind == "sentence_transformer":
        return SentenceTransformerEmbedder(model)
    return OpenAICompatibleEmbedder(LLMClient(model=model, mode="live"))


def _make_rerankers(arguments: argparse.Namespace) -> dict[str, BaseReranker]:
    kind, model = arguments.reranker, arguments.reranker_model
    _check_model("--reranker", kind, model, _RERANKERS)
    if kind is None:
        return {}
    if kind == "hashing":
        return {kind: BiEncoderReranker(HashingEmbedder(), cache_dir=None)}
    return {kind: CrossEncoderReranker(model)}


def _check_model(option: str, kind: str | None, model: str | None, kinds: Sequence[str]) -> None:
    takes_one = kind not in (None, "hashing")
    if takes_one and not model:
        raise ConfigError(f"{option} {kind} needs {option}-model")
    if model and not takes_one:
        others = " or ".join(one for one in kinds if one != "hashing")
        raise ConfigError(f"{option}-model {model}: allowed with {option} {others} only")
