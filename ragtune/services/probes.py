"""Asks the servers that are configured whether they are there: within seconds, free of charge, showing no secret.

Only what no server bills is asked: the list of models, a health page, a version. Redirections are not followed, so that
no key goes anywhere but to the address that it is meant for.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from ragtune.core.errors import ConfigError


@dataclass(frozen=True)
class Finding:
    """What a server said.

    Attributes:
        text: for the reader; holds no secret.
        is_well: whether it can be used; None where nothing is configured, or nothing could be asked.
    """

    text: str
    is_well: bool | None = None


def probe_language_model(timeout_s: float) -> Finding:
    """Ask the OpenAI-compatible server of the environment for its list of models, with its key."""
    from ragtune.llm.credentials import BASE_URL_VARIABLE

    if not (os.environ.get(BASE_URL_VARIABLE) or os.environ.get("OPENAI_API_KEY")):
        return Finding(f"not configured: set {BASE_URL_VARIABLE}, and OPENAI_API_KEY where the server wants a key")
    return _probe(None, "OPENAI_API_KEY", "models", timeout_s)


def probe_rerank_server(url: str, timeout_s: float) -> Finding:
    """Ask a rerank server for its health page; no key is sent, so nothing can be billed.

    Args:
        url: as a reranker is given it, checked, without a password.
        timeout_s: seconds that an answer may take.
    """
    base = re.sub(r"(/v\d+)?(/rerank)?$", "", url.rstrip("/"))
    status, said = _get(f"{base}/healthz", {}, timeout_s)
    if status not in (0, 200):
        status, said = _get(f"{base}/health", {}, timeout_s)
    return Finding(f"{base} {said}", is_well=0 < status < 500)


def probe_tracking(timeout_s: float) -> Finding:
    """Ask the MLflow server of the environment for its health page."""
    uri = os.environ.get("MLFLOW_TRACKING_URI")
    if not uri:
        return Finding("not configured: MLFLOW_TRACKING_URI; runs go to results/mlflow.db below the current folder")
    if not uri.startswith(("http://", "https://")):
        return Finding(f"{uri.partition('://')[0]}: a file or a database, which is not asked")
    return _probe(uri, "MLFLOW_TRACKING_TOKEN", "health", timeout_s)


def _probe(address: str | None, key: str, page: str, timeout_s: float) -> Finding:
    """What the server at an address, or the language model's, says to a request with its key."""
    from ragtune.llm.credentials import read_credentials

    try:
        found = read_credentials(address, None, key)
    except ConfigError as error:
        return Finding(str(error) if address is None else "the address cannot be read", is_well=False)
    status, said = _get(f"{found.base_url}/{page}", found.headers, timeout_s)
    if status in (401, 403):
        said = f"refuses the key of {key} ({status})"
    return Finding(found.redactor.text(f"{found.base_url} {said}"), is_well=status in (200, 404))


def find_obstacle(place: Path) -> Path | None:
    """Find what is in the way of writing to a file or folder that may not be there yet.

    Returns:
        The nearest thing on its path that exists, if nothing can be put there; None if it can.
    """
    nearest = next(path for path in (place.absolute(), *place.absolute().parents) if path.exists())
    usable = os.access(nearest, os.W_OK) and (nearest.is_dir() or nearest == place.absolute())
    return None if usable else nearest


def probe_postgres(timeout_s: float) -> Finding:
    """Ask the PostgreSQL server of the environment for its version and that of pgvector."""
    dsn = os.environ.get("RAGTUNE_DSN")
    if not dsn:
        return Finding("not configured: RAGTUNE_DSN; an embedded server is started where one is needed")
    try:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict, make_conninfo
    except ImportError:
        return Finding("RAGTUNE_DSN is set: pip install 'ragtune[postgres]'", is_well=False)
    from ragtune.llm.credentials import Redactor

    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.Error:
        return Finding("RAGTUNE_DSN cannot be read: postgresql://[user:password@]host[:port]/database", is_well=False)
    where = f"{parts.get('host', 'the local socket')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"
    redactor = Redactor([str(parts.get("password") or "")])
    try:
        with psycopg.connect(make_conninfo(dsn, connect_timeout=max(2, round(timeout_s)))) as connection:
            connection.execute(f"SET statement_timeout = {round(timeout_s * 1000)}")
            row = connection.execute(
                "SELECT current_setting('server_version'), default_version, installed_version"
                " FROM (SELECT) AS one LEFT JOIN pg_available_extensions ON name = 'vector'"
            ).fetchone()
    except psycopg.Error as error:
        reason = " ".join(str(error).split())
        return Finding(redactor.text(f"{where} does not answer: {reason or type(error).__name__}"), is_well=False)
    version, available, installed = row or ("?", None, None)
    if available is None:
        return Finding(f"{where} is PostgreSQL {version} without pgvector: install it on the server", is_well=False)
    state = f"pgvector {installed}" if installed else f"pgvector {available}, which the first collection creates"
    return Finding(f"{where} is PostgreSQL {version} with {state}", is_well=True)


class _StayHere(HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any) -> None:
        return None


def _get(url: str, headers: Mapping[str, str], timeout_s: float) -> tuple[int, str]:
    """The status, 0 where there is no answer, and what the server does in words."""
    started = time.perf_counter()
    request = Request(url, headers={"User-Agent": "ragtune-doctor", **headers})  # noqa: S310 - http(s), checked
    try:
        with build_opener(_StayHere).open(request, timeout=timeout_s):
            return 200, f"answers in {(time.perf_counter() - started) * 1000:.0f} ms"
    except HTTPError as error:
        return error.code, f"answers {error.code} {error.reason}"
    except (URLError, HTTPException, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            return 0, f"does not answer within {timeout_s:g} s"
        return 0, f"does not answer: {getattr(reason, 'strerror', None) or reason or type(error).__name__}"
