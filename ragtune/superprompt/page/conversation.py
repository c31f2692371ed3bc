"""The recent conversation as a person writes it down."""

from __future__ import annotations

import json
import re
from typing import Any

from ragtune.core.errors import ConfigError
from ragtune.superprompt.super_prompt import Turn

_START = re.compile(r"[ \t]*(user|assistant)[ \t]*:[ \t]?(.*)", re.IGNORECASE | re.DOTALL)
_ALLOWED = "write 'User: ...' and 'Assistant: ...', each on a new line, or a JSON list of {role, content}"


def parse_conversation(text: str) -> list[Turn]:
    """Turns, oldest first: a turn begins with a line ``User: ...`` or ``Assistant: ...`` and ends before the next one.

    A text that begins with ``[`` is read as a JSON list of ``{"role": "user" | "assistant", "content": "..."}``.

    Raises:
        ConfigError: if there is text before the first turn, a turn is empty, or the JSON has another form; the message
            says where.
    """
    if text.lstrip().startswith("["):
        return _from_json(text)
    turns: list[tuple[str, list[str]]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        start = _START.fullmatch(line)
        if start:
            turns.append((start[1].lower(), [start[2]]))
        elif turns:
            turns[-1][1].append(line)
        elif line.strip():
            raise ConfigError(f"conversation, line {number}: nobody says this: {_ALLOWED}")
    return [_turn(n, role, "\n".join(lines)) for n, (role, lines) in enumerate(turns, start=1)]


def _from_json(text: str) -> list[Turn]:
    try:
        rows: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"conversation: malformed JSON ({error}): {_ALLOWED}") from None
    return [_turn(n, *_fields(n, row)) for n, row in enumerate(rows, start=1)]


def _fields(number: int, row: Any) -> tuple[str, str]:
    if isinstance(row, dict) and set(row) == {"role", "content"} and all(isinstance(v, str) for v in row.values()):
        return row["role"], row["content"]
    raise ConfigError(f"conversation, turn {number}: {_ALLOWED}")


def _turn(number: int, role: str, content: str) -> Turn:
    if role not in ("user", "assistant"):
        raise ConfigError(f"conversation, turn {number}: role {role!r}: allowed are user and assistant")
    if not content.strip():
        raise ConfigError(f"conversation, turn {number}: the {role} says nothing: {_ALLOWED}")
    return Turn.model_validate({"role": role, "content": content.strip()})
