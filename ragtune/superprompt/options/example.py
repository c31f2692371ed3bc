"""A configuration file with every option and its meaning."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from typing import Literal, get_args, get_origin

import yaml
from pydantic import BaseModel

from ragtune.superprompt.options.model import PromptOptions
from ragtune.superprompt.options.reading import model_of

_WIDTH = 118
_ENTRY = re.compile(r"^    (\w[\w, ]*): (.*)$")
_PASSWORD = "dsn"  # noqa: S105 -- the name of an option, which may hold a password
_LEFT_OUT = (
    *("version", "keys", "must_keys", "defaults", "aliases", "bilingual"),
    *("header_templates", "line_templates", "keywords"),
)
_HEAD = """\
# Options of the prompt pipeline, for ragtune prompt --config FILE, the page's --config FILE, and
# ragtune.superprompt.options.load_options(FILE). A file needs only the options that differ from these. An unknown key or
# a value that is not allowed is refused. A file may be JSON too.
"""


def example_text(options: PromptOptions) -> str:
    """Return the options as YAML with a comment for each. Reading it again gives the same options.

    It leaves out the password of a DSN and the prompt schema's tables of names.
    """
    return "\n".join([_HEAD, *_lines(options, ""), ""])


def _lines(options: BaseModel, indent: str) -> Iterator[str]:
    meanings = _meanings(type(options))
    fields = {name: field for name, field in type(options).model_fields.items() if name not in _LEFT_OUT}
    values = options.model_dump(mode="json")
    for name, field in sorted(fields.items(), key=lambda pair: model_of(pair[1]) is not None):
        comment = meanings.get(name, "")
        if get_origin(field.annotation) is Literal and len(get_args(field.annotation)) > 1:
            comment = f"{' | '.join(map(str, get_args(field.annotation)))}; {comment}".removesuffix("; ")
        if model_of(field) is not None and not indent:
            yield ""
        yield from textwrap.wrap(comment, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")
        if model_of(field) is not None:
            yield f"{indent}{field.alias or name}:"
            yield from _lines(getattr(options, name), indent + "  ")
            continue
        value = sorted(values[name]) if isinstance(getattr(options, name), frozenset) else values[name]
        pair = {field.alias or name: None if name == _PASSWORD else value}
        text = yaml.safe_dump(pair, default_flow_style=True, allow_unicode=True, width=10**6)
        yield indent + text.strip()[1:-1]


@cache
def _meanings(model: type[BaseModel]) -> dict[str, str]:
    """Meanings of options, from the docstrings of a model and its bases."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if not issubclass(base, BaseModel) or base is BaseModel:
            continue
        _, _, attributes = inspect.cleandoc(base.__doc__ or "").replace("``", "").partition("Attributes:\n")
        names: list[str] = []
        for line in attributes.split("\n\n")[0].split("\n"):
            if entry := _ENTRY.match(line):
                names = entry[1].split(", ")
                found |= dict.fromkeys(names, entry[2].rstrip("."))
            else:
                found |= {name: f"{found[name]} {line.strip().rstrip('.')}" for name in names}
    return found
