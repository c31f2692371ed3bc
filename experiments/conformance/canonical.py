"""Conformance with the canonical specification (rule D14): of this code, of a database, of a server."""

from __future__ import annotations

import json
import secrets
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from ragtune.canonical import conformance
from ragtune.canonical.conformance import SPEC
from ragtune.canonical.conformance.fixtures import GOLDEN, dump_golden, load_fixtures
from ragtune.canonical.conformance.observing import observe
from ragtune.canonical.conformance.suite import narrow_gaps
from ragtune.canonical.conformance.targets import EMBEDDER, RERANKER, McpTarget, RestTarget, Target
from ragtune.canonical.service import RagService
from ragtune.canonical.store.base import BaseDatabase
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.core.errors import ConfigError, MissingExtraError
from ragtune.core.interfaces import BaseEmbedder
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.rerankers.models.bi_encoder import BiEncoderReranker
from ragtune.services.operations import OPERATIONS, decode

TARGETS = ("memory", "postgres", "rest", "mcp")
_REMOTE: dict[str, type[RestTarget] | type[McpTarget]] = {"rest": RestTarget, "mcp": McpTarget}
_PATHS = {"rest": "", "mcp": "/mcp"}
_PATIENCE_S = 30.0


class LibraryTarget(Target):
    """The library's own functions over a database, called as the service calls them.

    Args:
        name: name of the target, for reports.
        database: the database; it is closed with the target.
        embedder: embedder of the collections; None takes that of the golden answers.
    """

    def __init__(self, name: str, database: BaseDatabase, embedder: BaseEmbedder | None = None) -> None:
        self.name = name
        self.reranker = RERANKER
        self._service = _service(database, embedder or HashingEmbedder())
        self._operations = {operation.name: operation for operation in OPERATIONS}

    def call(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        chosen = self._operations[operation]
        request = decode(chosen.request, json.dumps(arguments).encode())
        found: dict[str, Any] = json.loads(chosen.answer(self._service, request))
        return found

    def close(self) -> None:
        self._service.close()


def _service(database: BaseDatabase, embedder: BaseEmbedder) -> RagService:
    """A service with the models of the golden answers, which no cache may answer for."""
    reranker = BiEncoderReranker(HashingEmbedder(), cache_dir=None)
    return RagService(database, {EMBEDDER: embedder}, {RERANKER: reranker}, cache_dir=None)


def memory_target() -> LibraryTarget:
    """The reference: exact search in memory."""
    return LibraryTarget("memory", MemoryDatabase())


def pin_canonical() -> None:
    """Make the answers that the store in memory gives now the golden ones.

    Raises:
        ConfigError: naming the cases whose scores are too near to each other to be golden.
    """
    with memory_target() as target:
        observed = observe(target, load_fixtures())
    if narrow := narrow_gaps(observed):
        raise ConfigError(f"scores of neighbours are too near in {', '.join(narrow)}: change their queries")
    folder = Path(str(files(conformance))) / f"v{SPEC}"
    (folder / GOLDEN).write_text(dump_golden(observed), encoding="utf-8")


@contextmanager
def open_target(
    kind: str, url: str | None = None, api_key: str | None = None, reranker: str | None = RERANKER
) -> Iterator[Target]:
    """Open the target that the suite asks.

    Args:
        kind: one of :data:`TARGETS`. ``postgres`` is the server that ``$RAGTUNE_DSN`` names, or else a new one in a
            temporary folder. ``rest`` and ``mcp`` without a URL are a server of this process on such a database.
        url: address of a running server: for ``rest`` what stands before ``/v1``, for ``mcp`` the endpoint.
        api_key: key of that server; None if it needs none.
        reranker: name by which that server offers the reranker of the golden answers; None if it does not.

    Raises:
        ConfigError: on a URL for a target that takes none, or a text that is not a URL.
        TargetError, StoreError: if the server cannot be reached.
        MissingExtraError: without the extra that the target needs.
    """
    if url is not None and kind not in _REMOTE:
        raise ConfigError(f"url={url!r}: allowed for the targets {' and '.join(_REMOTE)} only")
    with ExitStack() as stack:
        if kind == "memory":
            yield stack.enter_context(memory_target())
            return
        if url is None:
            database = stack.enter_context(_postgres())
            if kind == "postgres":
                yield stack.enter_context(LibraryTarget(kind, database))
                return
            api_key = secrets.token_urlsafe(32)
            url = stack.enter_context(serve(database, api_key)) + _PATHS[kind]
            reranker = RERANKER
        target = stack.enter_context(_REMOTE[kind](url, api_key, reranker))
        target.call("list_collections", {})  # one clear error where nobody is there
        yield target


@contextmanager
def _postgres() -> Iterator[BaseDatabase]:
    """The server that the environment names, or one in a temporary folder."""
    from ragtune.canonical.store.embedded import connect

    folder = Path(tempfile.mkdtemp(prefix="ragtune-conformance-"))
    folder.chmod(0o711)  # where this is root, the server runs as another user
    try:
        with connect(folder=folder) as database:
            yield database
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def serve(database: BaseDatabase, api_key: str) -> Iterator[str]:
    """Serve RAGtune's own adapters on a free port of this machine, with the models of the golden answers.

    Yields:
        The URL of the server.
    """
    try:
        import uvicorn
    except ImportError as error:
        raise MissingExtraError("a server", "services") from error
    from ragtune.services.application import create_application
    from ragtune.services.limits import ServerLimits
    from ragtune.services.security import Security

    service = _service(database, HashingEmbedder())
    app = create_application(service, Security(api_key=api_key), ServerLimits())
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none"))
    listener = socket.create_server(("127.0.0.1", 0))  # listens: who asks before the server is up is kept waiting
    thread = threading.Thread(target=server.run, args=([listener],), name="conformance-server", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(_PATIENCE_S)
