"""Agents: each asks a language model one kind of question by its configuration."""

from __future__ import annotations

import json
import math
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Generic, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from ragtune.core.errors import ConfigError, LLMError
from ragtune.core.request.context import CostMeter
from ragtune.core.tokens import count_tokens, token_spans
from ragtune.llm.client import LLMClient
from ragtune.llm.types import AnswerLimit, JsonResult, Message
from ragtune.superprompt.frozen import Frozen, flaws_in
from ragtune.superprompt.reading.text import clean, fenced, one_line
from ragtune.superprompt.super_prompt import ContextChunk

CUT = " [...]"
SHARE: Mapping[str, Any] = {"type": "number", "minimum": 0, "maximum": 1}
"""JSON schema of a number in [0, 1]."""

VERSION = "v1"
PLACEHOLDER = re.compile(r"\{([a-z_][a-z0-9_]*)\}")
_MARKER = re.compile(r"\[\[\s*(?:begin|end)\s+[^\[\]\n]*\]\]")

Text = Annotated[str, BeforeValidator(lambda value: "\n".join(value) if isinstance(value, list) else value)]
"""A text. JSON may hold it as a list of its lines."""

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
Numbered = tuple[int, str]
"""An item's number, which answers refer to, and its text."""


class AgentPromptText(Frozen):
    """The two messages. Only the user's holds ``{payload}``, so input never speaks as the system."""

    system: Text = Field(min_length=1)
    user: Text = Field(min_length=1)

    @model_validator(mode="after")
    def _placeholders(self) -> Self:
        in_system, in_user = (set(PLACEHOLDER.findall(text)) for text in (self.system, self.user))
        if unknown := sorted((in_system | in_user) - {"payload", "choices", "answer"}):
            raise ValueError(f"placeholder {{{unknown[0]}}}: allowed are answer, choices, payload")
        if "payload" not in in_user or "payload" in in_system:
            raise ValueError("{payload} must stand in the user's text, and only there")
        return self


class AgentConfig(Frozen):
    """Settings that all three kinds share; docs/superprompt.md explains them. Limits are in tokens."""

    agent_name: str
    version: str
    model: str | None = None
    temperature: float | None = Field(default=None, ge=0.0, allow_inf_nan=False)
    max_input_tokens: int = Field(ge=1)
    max_part_tokens: int = Field(ge=1)
    max_item_tokens: int = Field(default=1, ge=1)
    max_output_tokens: int = Field(ge=1)
    item_label: Name = "item"
    prompt: AgentPromptText

    @property
    def title(self) -> str:
        return f"{self.agent_name}_{self.version}"

    def log(self) -> dict[str, Any]:
        return {"agent": self.agent_name, "version": self.version}

    def choices(self) -> str:
        """Return the allowed answers in words, for ``{choices}``."""
        return ""

    @abstractmethod
    def answer(self, first: int | None) -> dict[str, Any]:
        """Return an example of an answer, for ``{answer}``; ``first`` is the number of the first item, if any."""


ConfigT = TypeVar("ConfigT", bound=AgentConfig)


class Contract(BaseModel):
    """An answer of the form that a configuration asks for. Unknown keys are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class BaseAgent(Generic[ConfigT]):
    """Asks a language model one kind of question and charges answers to the meter, not a raised ``LLMError``."""

    def __init__(self, config: ConfigT, client: LLMClient) -> None:
        self.config = config
        self.client = client.variant(model=config.model, temperature=config.temperature)

    def messages(self, parts: Mapping[str, str], items: Sequence[Numbered] = ()) -> list[Message]:
        """Return the two messages of a call. Input is fenced and inserted literally; empty parts are left out."""
        config = self.config
        named = [fenced(cut(text, config.max_part_tokens), name) for name, text in parts.items() if text.strip()]
        values = {
            "payload": "\n\n".join([*named, *(self._item(number, text) for number, text in items)]),
            "choices": config.choices(),
            "answer": json.dumps(config.answer(items[0][0] if items else None), ensure_ascii=False),
        }
        texts = {"system": config.prompt.system, "user": config.prompt.user}
        return [Message(role, PLACEHOLDER.sub(lambda match: values[match[1]], text)) for role, text in texts.items()]

    def split(self, parts: Mapping[str, str], items: Sequence[Numbered], most: int) -> list[list[Numbered]]:
        """Return ordered groups of at most ``most`` items that fit into ``max_input_tokens``; one item always fits."""
        without = sum(count_tokens(message.content) for message in self.messages(parts, [(1, "")]))
        room = self.config.max_input_tokens - without + count_tokens(self._item(1, ""))
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
        return fenced(cut(text, self.config.max_item_tokens), f"{self.config.item_label} {number}")

    def _ask(
        self, conversations: Sequence[Sequence[Message]], contract: type[Contract], meter: CostMeter
    ) -> list[dict[str, Any]]:
        """Return all answers in order, or raise the first error; the costs of all other calls are charged."""
        limit = self.config.max_output_tokens
        outcomes: list[JsonResult[Contract] | LLMError] = self.client.chat_json_many(
            conversations, contract, max_tokens=AnswerLimit(limit, f"{self.config.title} max_output_tokens={limit}")
        )
        failed = next((outcome for outcome in outcomes if isinstance(outcome, LLMError)), None)
        for outcome in outcomes:
            if outcome is not failed:
                meter.charge(LLMClient.cost(outcome))
                meter.pay(LLMClient.paid(outcome))
        if failed is not None:
            raise failed
        return [outcome.parsed.model_dump() for outcome in outcomes if isinstance(outcome, JsonResult)]


def agent_config(name: str, kind: type[ConfigT], folder: Path | None = None) -> ConfigT:
    """Return the configuration ``<name in lower case>.v1.json`` of the folder, else of the package."""
    file = f"{name.lower()}.{VERSION}.json"
    own = None if folder is None else folder / file
    packaged = files("ragtune.superprompt") / "config" / file
    source: Path | Traversable = own if own is not None and own.is_file() else packaged
    try:
        config = kind.model_validate_json(source.read_text(encoding="utf-8"))
    except ValidationError as error:
        raise ConfigError(f"agent configuration {source}: {flaws_in(error)}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"agent configuration {str(source)!r} cannot be read ({error})") from error
    if (config.agent_name, config.version) != (name, VERSION):
        raise ConfigError(f"agent configuration {source} is of {config.title}: allowed is {name}_{VERSION}")
    return config


def cut(text: str, max_tokens: int) -> str:
    """Return ``text``, or its first ``max_tokens`` tokens and `` [...]`` if it has more."""
    spans = list(islice(token_spans(text), max_tokens + 1))
    return text if len(spans) <= max_tokens else text[: spans[max_tokens - 1][1]] + CUT


def bounded(text: str, max_tokens: int) -> str:
    """:func:`cut` to at most ``max_tokens`` tokens, including the mark of the cut."""
    if count_tokens(text) <= max_tokens:
        return text
    room = max_tokens - count_tokens(CUT)
    return cut(text, room) if room > 0 else ""


def tidy(text: str) -> str:
    """Return a model's text without control characters and without markers of the fences that it was shown."""
    lines = [(line, _MARKER.sub("", line)) for line in clean(text).split("\n")]
    return "\n".join(bare for line, bare in lines if bare.strip() or not line.strip()).strip()


def item_text(chunk: ContextChunk) -> str:
    """Return a chunk with its provenance. Both go behind one fence, because the id is input too."""
    provenance = f"ID: {one_line(chunk.id)}\nSOURCE: {chunk.source}\nSPAN: {chunk.start}-{chunk.end}"
    return f"{provenance}\n\n{chunk.snippet}"


def number_of(value: Any) -> int | None:
    """Return the item number of a value: a whole number, or its digits; None for anything else."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        return int(value.strip()[:9])
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def share_of(value: Any) -> float | None:
    """Return the value as a number in [0, 1]; None for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) and 0.0 <= value <= 1.0 else None
