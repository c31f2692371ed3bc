"""Who may ask: an API key, and host and origin checks against web pages that reach for a local server."""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ragtune.core.errors import ConfigError
from ragtune.services.errors import AdapterError

API_KEY_VARIABLE = "RAGTUNE_API_KEY"

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHORTEST_KEY = 16


@dataclass(frozen=True)
class Security:
    """What a request must show.

    Attributes:
        api_key: key that requests send as ``Authorization: Bearer KEY`` or ``X-API-Key: KEY``; None asks for none.
        allowed_hosts: names that the Host header may have, without ports; None allows all. Without this check a web
            page could reach a server on its visitor's machine by a name that resolves to it (DNS rebinding).
        allowed_origins: origins (``scheme://host[:port]``) of other web pages that may send requests. Pages of an
            allowed host of loopback, and those of the server's own address, always may.
    """

    api_key: str | None = field(default=None, repr=False)
    allowed_hosts: frozenset[str] | None = frozenset(_LOOPBACK_NAMES)
    allowed_origins: frozenset[str] = frozenset()

    def check(self, headers: Mapping[str, str]) -> None:
        """Check that host and origin are allowed.

        Args:
            headers: the request's headers by lower-case name.

        Raises:
            AdapterError: with status 421 (host) or 403 (origin) if they are not.
        """
        host = headers.get("host", "")
        if self.allowed_hosts is not None and _name(host) not in self.allowed_hosts:
            raise AdapterError("wrong-host", "The Host header names another server.")
        origin = headers.get("origin")
        if origin is not None and not self._is_allowed(origin, host):
            raise AdapterError("forbidden-origin", "The Origin header names a page that is not allowed.")

    def check_key(self, headers: Mapping[str, str]) -> None:
        """Check the key of a request, in constant time.

        Raises:
            AdapterError: with status 401 if the key is missing or wrong.
        """
        if self.api_key is None:
            return
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = headers.get("x-api-key") or (token.strip() if scheme.lower() == "bearer" else "")
        if not hmac.compare_digest(given.encode(), self.api_key.encode()):
            raise AdapterError(
                "unauthorized",
                "Send the API key as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'.",
                {"WWW-Authenticate": "Bearer"},
            )

    def _is_allowed(self, origin: str, host: str) -> bool:
        if origin in self.allowed_origins:
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or not parts.netloc:
            return False
        return parts.netloc.lower() == host.lower() or (
            _name(host) in _LOOPBACK_NAMES and _name(parts.netloc) in _LOOPBACK_NAMES
        )


def secure(
    host: str,
    api_key_env: str = API_KEY_VARIABLE,
    allowed_hosts: frozenset[str] = frozenset(),
    allowed_origins: frozenset[str] = frozenset(),
) -> Security:
    """What a server on that address must ask for; the key comes from the environment only.

    Args:
        host: address or name that the server listens on.
        api_key_env: NAME of the variable that holds the key.
        allowed_hosts: further names of the server. A server on loopback knows its own; any other one is open to every
            name unless some are given.
        allowed_origins: origins of other web pages that may send requests, as in :class:`Security`.

    Raises:
        ConfigError: on an address that is not loopback without a key, a short key, or no name of a variable. The value
            is not quoted, it may be a key given by mistake.
    """
    if not _VARIABLE.fullmatch(api_key_env):
        raise ConfigError("api_key_env: allowed is the NAME of an environment variable, never the key")
    key = os.environ.get(api_key_env) or None
    if key is not None and (len(key) < _SHORTEST_KEY or not key.isascii() or not key.isprintable() or " " in key):
        raise ConfigError(
            f"{api_key_env}: allowed is a key of at least {_SHORTEST_KEY} visible ASCII characters without spaces"
        )
    local = is_loopback(host)
    if key is None and not local:
        raise ConfigError(f"host={host!r}: allowed without an API key is loopback only; set {api_key_env}")
    if local:
        names: frozenset[str] | None = frozenset(_LOOPBACK_NAMES) | {host.lower()} | allowed_hosts
    else:
        names = allowed_hosts | {host.lower()} if allowed_hosts else None
    return Security(key, names, allowed_origins)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _name(netloc: str) -> str:
    """A Host header without port and brackets."""
    name = netloc.rsplit("@", 1)[-1].lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0]
