"""A configuration file with every option, its meaning beside it, written from the schema."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ragtune.superprompt.options.model import PromptOptions
from ragtune.superprompt.options.reading import model_of

_WIDTH = 118
_ENTRY = re.compile(r"^    (\w[\w, ]*): (.*)$")
_FIRST = ("memory", "embedder", "reranker", "llm")
_SECRET = "dsn"  # noqa: S105 -- the name of an option, which may hold a password
_LEFT_OUT = (
    *("version", "keys", "must_keys", "defaults", "aliases", "bilingual"),
    *("header_templates", "line_templates", "keywords"),
)
_HEAD = """\
# Options of the prompt pipeline: ragtune prompt --config FILE, the page's --config FILE, and
# ragtune.superprompt.options.load_options(FILE). A file need name only what is to be other than here; an unknown key or
# a value that is not allowed is refused. JSON will do as well.
"""


def example_text(options: PromptOptions) -> str:
    """The options as YAML with a comment for each; reading it again gives the same options.

    A DSN, which may hold a password, and the prompt schema's tables of names, which fill pages, are left out.
    """
    return "\n".join([_HEAD, *_lines(options, ""), ""])


def _lines(options: BaseModel, indent: str) -> Iterator[str]:
    said = _meanings(type(options))
    fields = type(options).model_fields
    for name in sorted(fields, key=lambda name: (model_of(fields[name]) is not None, _place(name))):
        field, value = fields[name], getattr(options, name)
        if name in _LEFT_OUT:
            continue
        label = field.alias or name
        if model_of(field) is None:
            yield from _option(label, None if name == _SECRET else value, _comment(said.get(name, ""), field), indent)
            continue
        if not indent:
            yield ""
        yield from _wrapped(said.get(name, ""), indent)
        yield f"{indent}{label}:"
        yield from _lines(value, indent + "  ")


def _place(name: str) -> int:
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)


def _option(label: str, value: Any, comment: str, indent: str) -> Iterator[str]:
    line = f"{indent}{label}: {_inline(value)}"
    if comment and len(line) + len(comment) + 3 <= _WIDTH:
        yield f"{line} # {comment}"
        return
    yield from _wrapped(comment, indent)
    yield line


def _wrapped(comment: str, indent: str) -> list[str]:
    return textwrap.wrap(comment, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")


def _inline(value: Any) -> str:
    """A value as JSON, which YAML reads; words stay bare."""
    if isinstance(value, Path):
        value = str(value)
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w-]*", value) and value.lower() not in ("null", "yes", "no"):
        return value
    if isinstance(value, frozenset):
        value = tuple(sorted(value))
    if isinstance(value, tuple):
        return f"[{', '.join(map(_inline, value))}]"
    plain = dict(value) if isinstance(value, Mapping) else value
    return json.dumps(plain, ensure_ascii=False)


def _comment(meaning: str, field: FieldInfo) -> str:
    kind = field.annotation
    if get_origin(kind) is Literal and len(get_args(kind)) > 1:
        choices = " | ".join(map(str, get_args(kind)))
        return f"{choices}; {meaning}" if meaning else choices
    return meaning


@cache
def _meanings(model: type[BaseModel]) -> dict[str, str]:
    """What the docstrings of a model and of those that it widens say of each option."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        text = (
            inspect.cleandoc(base.__doc__ or "").replace("``", "")
            if issubclass(base, BaseModel) and base is not BaseModel
            else ""
        )
        _, _, attributes = text.partition("Attributes:\n")
        names: list[str] = []
        for line in attributes.split("\n"):
            if entry := _ENTRY.match(line):
                names = entry[1].split(", ")
                found |= dict.fromkeys(names, entry[2].rstrip("."))
            elif not line.startswith("     "):
                names = []
            else:
                found |= {name: f"{found[name]} {line.strip().rstrip('.')}" for name in names}
    return found
