"""The session's turns: as a person writes them down, and as chunks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ragtune.canonical import chunk, normalize
from ragtune.canonical.policies import ChunkPolicy
from ragtune.core.errors import ConfigError
from ragtune.superprompt.super_prompt import ContextChunk
from ragtune.superprompt.frozen import flaws_in
from ragtune.superprompt.reading.text import clean
from ragtune.superprompt.super_prompt import Turn

_START = re.compile(r"[ \t]*(user|assistant)[ \t]*:[ \t]?(.*)", re.IGNORECASE | re.DOTALL)
_ALLOWED = "write 'User: ...' and 'Assistant: ...', each on a new line, or a JSON list of {role, content}"
_TURNS = TypeAdapter(list[Turn])


def parse_conversation(text: str) -> list[Turn]:
    """Return the turns, oldest first. A turn begins with a line ``User: ...`` or ``Assistant: ...``.

    A text that begins with ``[`` is read as a JSON list of ``{"role": "user" | "assistant", "content": "..."}``.
    """
    try:
        turns = _TURNS.validate_json(text) if text.lstrip().startswith("[") else _TURNS.validate_python(_rows(text))
    except ValidationError as error:
        raise ConfigError(f"conversation: {flaws_in(error)[:200]}: {_ALLOWED}") from None
    stripped = [turn.model_copy(update={"content": turn.content.strip()}) for turn in turns]
    if empty := [number for number, turn in enumerate(stripped, start=1) if not turn.content]:
        raise ConfigError(f"conversation, turn {empty[0]}: it is empty: {_ALLOWED}")
    return stripped


def conversation_chunks(turns: Sequence[Turn], policy: ChunkPolicy) -> list[ContextChunk]:
    """Return chunks of every turn. Turn n, from 0, is document ``conversation/<n>``; metadata has its role."""
    return [
        ContextChunk.of(piece.model_copy(update={"metadata": {"role": turn.role}}), "conversation")
        for n, turn in enumerate(turns)
        for piece in chunk(normalize(clean(turn.content)), policy, doc_id=f"conversation/{n:04d}")
    ]


def _rows(text: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        start = _START.fullmatch(line)
        if start:
            rows.append({"role": start[1].lower(), "content": start[2]})
        elif rows:
            rows[-1]["content"] += f"\n{line}"
        elif line.strip():
            raise ConfigError(f"conversation, line {number}: it has no speaker: {_ALLOWED}")
    return rows
