"""Where the service is and what opens it. Secrets come from the environment only and are never shown."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from ragtune.core.errors import ConfigError

BASE_URL_VARIABLE = "OPENAI_BASE_URL"
DEFAULT_BASE_URL = "https://api.openai.com/v1"

_NEED_KEYS = ("api.openai.com", "api.cohere.com", "api.jina.ai", "api.voyageai.com")
_FROM_VARIABLE = f"{BASE_URL_VARIABLE} must be http(s)://[user:password@]host[:port][/path]"
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_SHORTEST_SECRET = 4  # hiding shorter ones would hide ordinary words


@dataclass(frozen=True)
class Credentials:
    """What a connection needs, read from the environment when it is needed."""

    base_url: str
    headers: Mapping[str, str] = field(repr=False)
    secrets: Sequence[str] = field(repr=False)

    @cached_property
    def _forms(self) -> re.Pattern[str]:
        """Secrets as they are and as URLs and JSON may spell them, the longest first."""
        known = [secret for secret in self.secrets if len(secret) >= _SHORTEST_SECRET]
        forms = {form for secret in known for form in (secret, quote(secret, safe=""), secret.replace("/", "\\/"))}
        return re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))) or r"(?!)")

    def hidden_in(self, text: str) -> str:
        return self._forms.sub("[secret]", text)


def check_base_url(name: str, base_url: str | None, variable: str = BASE_URL_VARIABLE) -> str | None:
    """Return a URL without secrets and without a slash at its end; None stays None."""
    if base_url is None:
        return None
    allowed = f"allowed is http(s)://host[:port][/path]; secrets come from the environment only ({variable})"
    plain, user, _ = _split(base_url, f"{name}: {allowed}")
    if user:
        raise ConfigError(f"{name} holds a user: {allowed}")
    return plain


def check_variable(option: str, name: str) -> str:
    """Return the name of an environment variable."""
    if isinstance(name, str) and _VARIABLE.fullmatch(name):
        return name
    raise ConfigError(f"{option}: allowed is the NAME of an environment variable in capitals, never the key")


def named_key(option: str, variable: str) -> str:
    """Return the key in an environment variable that a user named; ConfigError where it is not set."""
    if key := os.environ.get(check_variable(option, variable)):
        return key
    raise ConfigError(f"{option} {variable}: that environment variable is not set")


def host_of(base_url: str | None, default: str | None = None) -> str:
    """Return ``host[:port]/path`` of the service, see :func:`read_credentials`."""
    plain, _, _ = _split(_effective(base_url, default), _FROM_VARIABLE)
    return plain.split("://", 1)[1]


def read_credentials(base_url: str | None, default: str | None, api_key_env: str) -> Credentials:
    """Read what to connect with."""
    plain, user, password = _split(_effective(base_url, default), _FROM_VARIABLE)
    key = os.environ.get(api_key_env, "")
    if not key and urlsplit(plain).hostname in _NEED_KEYS:
        raise ConfigError(
            f"the environment variable {api_key_env} is not set: it must hold the API key, "
            f"or the address must be of a server that wants none, not of {urlsplit(plain).hostname}"
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"the environment variable {api_key_env} holds blanks or characters that no key has")
    basic = base64.b64encode(f"{user}:{password}".encode()).decode() if user else ""
    authorization = f"Basic {basic}" if basic else f"Bearer {key}"
    headers = {"Authorization": authorization} if basic or key else {}
    return Credentials(plain, headers, (key, password, basic))


def _effective(base_url: str | None, default: str | None) -> str:
    return base_url or os.environ.get(BASE_URL_VARIABLE) or default or DEFAULT_BASE_URL


def _split(url: str, message: str) -> tuple[str, str, str]:
    """(URL without credentials, user, password)."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except (ValueError, AttributeError, TypeError):
        host, port = None, None
    if not host or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise ConfigError(message)
    named = f"[{host}]" if ":" in host else host
    place = named if port is None else f"{named}:{port}"
    plain = urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", ""))
    return plain, unquote(parts.username or ""), unquote(parts.password or "")
