"""Where the service is and what opens it; secrets come from the environment only and are shown to nobody."""

from __future__ import annotations

import base64
import os
import re
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit, urlunsplit

from ragtune.core.errors import ConfigError
from ragtune.llm.redaction import Redactor

BASE_URL_VARIABLE = "OPENAI_BASE_URL"
DEFAULT_BASE_URL = "https://api.openai.com/v1"

_PLACEHOLDER = "no-key"
_WANT_KEYS = ("api.openai.com", "api.cohere.com", "api.jina.ai", "api.voyageai.com")
_FROM_VARIABLE = f"{BASE_URL_VARIABLE} must be http(s)://[user:password@]host[:port][/path]"
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


@dataclass(frozen=True)
class Credentials:
    """What a connection needs, read from the environment at the moment it is needed and kept by nobody else.

    Attributes:
        base_url: address of the service, without user or password.
        key: the API key, or a placeholder for servers that want none.
        headers: further headers: basic authentication where ``OPENAI_BASE_URL`` holds a user and a password.
        redactor: takes all of that out of what servers and libraries say, who quote what they were sent.
    """

    base_url: str
    key: str = field(repr=False)
    headers: dict[str, str] = field(repr=False)
    redactor: Redactor = field(repr=False)


def check_base_url(name: str, base_url: str | None, variable: str = BASE_URL_VARIABLE) -> str | None:
    """A URL without secrets, no slash at its end; None stays None. ``variable`` is where secrets come from.

    Raises:
        ConfigError: unless it is ``http(s)://host[:port][/path]``. The value is not quoted, it may hold a password.
    """
    if base_url is None:
        return None
    allowed = f"allowed is http(s)://host[:port][/path]; secrets come from the environment only ({variable})"
    plain, user, _ = _split(base_url, allowed, name)
    if user:
        raise ConfigError(f"{name} holds a user: {allowed}")
    return plain


def check_variable(api_key_env: str, who: str = "llm") -> str:
    """The name of an environment variable.

    Raises:
        ConfigError: unless it looks like one; the value is not quoted, it may be a key given by mistake.
    """
    if isinstance(api_key_env, str) and _VARIABLE.fullmatch(api_key_env):
        return api_key_env
    raise ConfigError(f"{who} api_key_env: allowed is the NAME of an environment variable in capitals, never the key")


def host_of(base_url: str | None, default: str | None = None) -> str:
    """``host[:port]/path`` of the service: identifies it, opens nothing; see :func:`read_credentials`."""
    plain, _, _ = _split(_effective(base_url, default), _FROM_VARIABLE)
    return plain.split("://", 1)[1]


def read_credentials(base_url: str | None, default: str | None, api_key_env: str) -> Credentials:
    """What to connect with.

    Args:
        base_url: address of the service; None takes the environment's.
        default: where the environment has none either; None is OpenAI's.
        api_key_env: name of the variable that holds the key.

    Raises:
        ConfigError: if the variable is unset and the service wants a key, as OpenAI's own does, or a value cannot be
            sent.
    """
    plain, user, password = _split(_effective(base_url, default), _FROM_VARIABLE)
    key = os.environ.get(api_key_env, "")
    if not key and urlsplit(plain).hostname in _WANT_KEYS:
        raise ConfigError(
            f"the environment variable {api_key_env} is not set: it must hold the API key, "
            f"or the address must be of a server that wants none, not of {urlsplit(plain).hostname}"
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"the environment variable {api_key_env} holds blanks or characters that no key has")
    basic = _basic(user, password) if user else ""
    headers = {"Authorization": f"Basic {basic}"} if user else {}
    return Credentials(plain, key or _PLACEHOLDER, headers, Redactor([key, password, basic]))


def _effective(base_url: str | None, default: str | None) -> str:
    return base_url or os.environ.get(BASE_URL_VARIABLE) or default or DEFAULT_BASE_URL


def _basic(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def _split(url: str, allowed: str, name: str = "llm base_url") -> tuple[str, str, str]:
    """(URL without credentials, user, password)."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except (ValueError, AttributeError, TypeError):
        host, port = None, None
    if not host or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise ConfigError(f"{name}: {allowed}")
    named = f"[{host}]" if ":" in host else host
    place = named if port is None else f"{named}:{port}"
    plain = urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", ""))
    return plain, unquote(parts.username or ""), unquote(parts.password or "")
