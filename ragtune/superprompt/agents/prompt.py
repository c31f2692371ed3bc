"""The messages of a call, from a configuration and an input."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ragtune.core.tokens import count_tokens
from ragtune.llm.prompts import PromptLibrary
from ragtune.llm.types import Message
from ragtune.superprompt.agents.config import (
    CERTAINTY,
    ITEM_ID,
    AgentConfig,
    ChooserConfig,
    ExtractorConfig,
    WriterConfig,
)
from ragtune.superprompt.agents.texts import cut
from ragtune.superprompt.reading.fences import fenced

Numbered = tuple[int, str]
"""An item's number, which answers refer to, and its text."""

_KEY = "agent"


class AgentPrompt:
    """Composes system and user message. All input is fenced and inserted literally, in one pass.

    Placeholders of the texts: ``{payload}``, the fenced input; ``{choices}``, the allowed answers; ``{answer}``, the
    wanted JSON. The last two come from the configuration, so a prompt cannot ask for what is not allowed.
    """

    def __init__(self, config: AgentConfig) -> None:
        self._config = config
        self._library = PromptLibrary({_KEY: config.prompt.model_dump()})

    def messages(
        self,
        parts: Mapping[str, str],
        items: Sequence[Numbered] = (),
        enums: Mapping[str, Sequence[str]] | None = None,
    ) -> list[Message]:
        """Return the system message and the user message of a call; empty parts are left out."""
        named = [fenced(cut(text, self._config.max_part_tokens), name) for name, text in parts.items() if text.strip()]
        values = {
            "payload": "\n\n".join([*named, *(self._item(number, text) for number, text in items)]),
            "choices": _choices(self._config, enums or {}),
            "answer": _answer(self._config, enums or {}, items[0][0] if items else 1),
        }
        wanted = self._library.placeholders(_KEY)
        return self._library.render(_KEY, {name: value for name, value in values.items() if name in wanted})

    def split(
        self, parts: Mapping[str, str], items: Sequence[Numbered], most: int, enums: Mapping[str, Sequence[str]]
    ) -> list[list[Numbered]]:
        """Return ordered groups of at most ``most`` items that fit into ``max_input_tokens``; one item always fits."""
        room = self._config.max_input_tokens - count_all(self.messages(parts, (), enums))
        groups: list[list[Numbered]] = []
        left = 0
        for number, text in items:
            size = count_tokens(self._item(number, text))
            if not groups or size > left or len(groups[-1]) == most:
                groups.append([])
                left = room
            groups[-1].append((number, text))
            left -= size
        return groups

    def _item(self, number: int, text: str) -> str:
        label = getattr(self._config, "item_label", "item")
        return fenced(cut(text, self._config.max_item_tokens), f"{label} {number}")


def count_all(messages: Sequence[Message]) -> int:
    """Return the number of tokens of all messages together."""
    return sum(count_tokens(message.content) for message in messages)


def _choices(config: AgentConfig, enums: Mapping[str, Sequence[str]]) -> str:
    if isinstance(config, ChooserConfig):
        return "\n".join(
            f"- {name}: {field.description + '; ' if field.description else ''}"
            f"one of {', '.join(json.dumps(value, ensure_ascii=False) for value in enums.get(name, field.enum))}"
            f"{' or null' if field.default is None else ''}"
            for name, field in config.fields.items()
        )
    if isinstance(config, ExtractorConfig):
        return "\n".join(
            f"- {name}: {key.description} ({key.type}, at most {key.max_tokens} tokens"
            f"{' each, ' + str(key.max_items) + ' entries' if key.type == 'list' else ''}"
            f"{'' if key.required else '; may be left out'})"
            for name, key in config.keys.items()
        )
    assert isinstance(config, WriterConfig)  # noqa: S101 -- the third of three kinds
    headings = "\n".join(f"## {section}" for section in config.sections)
    return f"{headings}\n(at most {config.max_text_tokens} tokens in all)"


def _answer(config: AgentConfig, enums: Mapping[str, Sequence[str]], first: int) -> str:
    shape: dict[str, Any] = {}
    if isinstance(config, ChooserConfig):
        choice: dict[str, Any] = {
            name: field.default or next(iter(enums.get(name, field.enum)), None)
            for name, field in config.fields.items()
        }
        choice[CERTAINTY] = 0.9
        shape = choice if config.over == "record" else {"items": [{ITEM_ID: first, **choice}]}
    elif isinstance(config, ExtractorConfig):
        shape = {name: "..." if key.type == "text" else ["..."] for name, key in config.keys.items()}
    elif isinstance(config, WriterConfig):
        text = "\n".join(f"## {section}\n- ..." for section in config.sections)
        shape = {config.text_key: text, config.scores_key: {str(first): 0.9}}
    return json.dumps(shape, ensure_ascii=False)
