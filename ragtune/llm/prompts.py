"""Prompt templates from a YAML file, and fences that untrusted text cannot close."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragtune.core.component import declare_files
from ragtune.core.errors import ConfigError
from ragtune.llm.types import ROLES, Message, well_formed

SHIPPED = Path(__file__).with_name("prompts.yaml")
"""The prompts of all components that ask a language model."""

_PLACEHOLDER = re.compile(r"\{([a-z_][a-z0-9_]*)\}")
_DIGEST_CHARS = 12


@declare_files(reads=["source"])
class PromptLibrary:
    """Templates by dotted key, e.g. ``reformulation.llm_rewrite`` (rule R4).

    A template maps roles (``system``, ``user``, ``assistant``) to texts, which become messages in that order. Texts
    hold placeholders: lower-case names in braces. All other braces are literal, so JSON needs no escapes.

    Args:
        source: a YAML file, or its content as nested mappings; None takes the package's own prompts.

    Raises:
        ConfigError: if the file cannot be read, or is not a tree of mappings with roles and texts as leaves.

    Examples:
        >>> from ragtune.llm.prompts import PromptLibrary
        >>> prompts = PromptLibrary({"greet": {"user": "Hello, {name}."}})
        >>> prompts.render("greet", {"name": "Ada"})
        [Message(role='user', content='Hello, Ada.')]
    """

    def __init__(self, source: str | Path | Mapping[str, Any] | None = None) -> None:
        source = SHIPPED if source is None else source
        content, self._origin = (source, "the given prompts") if isinstance(source, Mapping) else _load(Path(source))
        self._templates: dict[str, dict[str, str]] = {}
        self._collect(content, ())

    def placeholders(self, key: str) -> frozenset[str]:
        """Return the names of the template's placeholders."""
        return frozenset(name for text in self._template(key).values() for name in _PLACEHOLDER.findall(text))

    def render(self, key: str, values: Mapping[str, object]) -> list[Message]:
        """Return the template's messages, with every ``{name}`` replaced by ``str(values[name])``.

        Replacement is one pass: braces within inserted values stay as they are.

        Raises:
            ConfigError: if there is no such template, a placeholder has no value, or a value has no placeholder.
        """
        wanted = self.placeholders(key)
        for problem, names in (
            ("has no value for", wanted - set(values)),
            ("has no placeholder", set(values) - wanted),
        ):
            if names:
                raise ConfigError(f"prompt {key!r} {problem} {', '.join(f'{{{name}}}' for name in sorted(names))}")
        texts = {name: str(value) for name, value in values.items()}
        return [
            Message(role, _PLACEHOLDER.sub(lambda match: texts[match[1]], text))
            for role, text in self._template(key).items()
        ]

    def _template(self, key: str) -> Mapping[str, str]:
        if key not in self._templates:
            raise ConfigError(
                f"prompt {key!r} is not in {self._origin}: there are {', '.join(sorted(self._templates))}"
            )
        return self._templates[key]

    def _collect(self, node: Any, path: tuple[str, ...]) -> None:
        where = ".".join(path) or "the top level"
        if not isinstance(node, Mapping) or not node:
            raise ConfigError(f"{self._origin}: {where} is {node!r}: allowed are keys and texts by role")
        if set(node) & set(ROLES):
            self._templates[".".join(path)] = self._texts(node, where)
            return
        for name, child in node.items():
            self._collect(child, (*path, str(name)))

    def _texts(self, node: Mapping[str, Any], where: str) -> dict[str, str]:
        for role, text in node.items():
            if role not in ROLES or not isinstance(text, str):
                raise ConfigError(f"{self._origin}: {where}.{role}={text!r}: allowed are texts of {', '.join(ROLES)}")
        return {role: node[role] for role in ROLES if role in node}


def fence(text: str, label: str) -> str:
    """Return ``text`` between two markers that it does not contain, so that it cannot end the fence itself.

    The markers carry a digest of the text, so they are the same on every run::

        [[begin document 3 5feceb66ffc8]]
        ...
        [[end document 3 5feceb66ffc8]]
    """
    text = well_formed(text)
    seed = f"{label}\x00{text}"
    mark = _digest(seed)
    while mark in text:  # a text made to hold its own digest
        seed += mark
        mark = _digest(seed)
    return f"[[begin {label} {mark}]]\n{text}\n[[end {label} {mark}]]"


def fence_all(texts: Sequence[str], label: str) -> str:
    """Return every text behind its own fence, labelled ``label 1``, ``label 2``, ..., with empty lines between."""
    return "\n\n".join(fence(text, f"{label} {number}") for number, text in enumerate(texts, start=1))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]


def _load(path: Path) -> tuple[Any, str]:
    import yaml

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8")), str(path)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"the prompts {path} cannot be read: {' '.join(str(error).split())}") from None
