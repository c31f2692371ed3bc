"""The chooser: closed choices, each matched or replaced by its default with a reason."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import Field, WithJsonSchema, create_model, model_validator

from ragtune.core.request.context import CostMeter
from ragtune.superprompt.agents.agent import SHARE, AgentConfig, BaseAgent, Contract, Name, number_of, share_of
from ragtune.superprompt.frozen import Frozen

CERTAINTY = "certainty"
"""Name under which a chooser reports its confidence, in [0, 1]."""

_GAPS = re.compile(r"[\s_\-]+")
_SHOWN_CHARS = 80

Reason = Literal["agent", "clamped", "missing", "uncertain", "llm_off"]


@dataclass(frozen=True)
class Choice:
    """The outcome of one field: an allowed value or the default, its reason, and the model's words for it."""

    value: str | None
    reason: Reason
    said: str | None = None


@dataclass(frozen=True)
class Choices:
    """The outcomes of all fields, and the certainty in [0, 1] that the model stated."""

    fields: Mapping[str, Choice]
    certainty: float | None = None

    def log(self) -> dict[str, Any]:
        return {CERTAINTY: self.certainty, **{name: asdict(choice) for name, choice in self.fields.items()}}


class ChoiceField(Frozen):
    """One closed choice; A0's file has no ``enum``, because the prompt schema has its values.

    ``default`` replaces an answer that is missing, not allowed or too uncertain. ``texts`` has what a value stands for.
    """

    enum: tuple[str, ...] = ()
    default: str | None = None
    description: str = ""
    texts: Mapping[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _closed(self) -> Self:
        if self.enum and self.default not in self.allowed:
            raise ValueError(f"{self.default!r} is not in the enum: allowed are {', '.join(self.enum)}")
        return self

    @property
    def allowed(self) -> list[str | None]:
        return [*self.enum, *([None] if self.default is None else [])]

    def match(self, answer: object) -> str | None:
        """Return the allowed value that an answer names, in any case and spacing; None if it names none."""
        if not isinstance(answer, str):
            return None
        return next((value for value in self.enum if _plain(value) == _plain(answer)), None)

    def text(self, value: str) -> str:
        return self.texts.get(value, value)

    def decide(self, said: Any, is_sure: bool) -> Choice:
        if said is None:
            return Choice(self.default, "missing")
        text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
        shown = text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."
        matched = self.match(said)
        if matched is None:
            return Choice(self.default, "clamped", shown)
        return Choice(matched, "agent", shown) if is_sure else Choice(self.default, "uncertain", shown)


class ChooserConfig(AgentConfig):
    """Chooses among closed values, once for the whole input or once for each item."""

    fields: Mapping[Name, ChoiceField] = Field(min_length=1)
    min_confidence: float = Field(default=0.0, ge=0.0, le=1.0)
    max_items_per_call: int = Field(default=1, ge=1)

    def choices(self) -> str:
        return "\n".join(
            f"- {name}: {field.description + '; ' if field.description else ''}"
            f"one of {', '.join(json.dumps(value, ensure_ascii=False) for value in field.enum)}"
            f"{' or null' if field.default is None else ''}"
            for name, field in self.fields.items()
        )

    def answer(self, first: int | None) -> dict[str, Any]:
        choice: dict[str, Any] = {name: field.default or field.allowed[0] for name, field in self.fields.items()}
        choice[CERTAINTY] = 0.9
        return choice if first is None else {"items": [{"id": first, **choice}]}

    def decide(self, said: Mapping[str, Any]) -> Choices:
        certainty = share_of(said.get(CERTAINTY))
        is_sure = certainty is None or certainty >= self.min_confidence
        return Choices({name: field.decide(said.get(name), is_sure) for name, field in self.fields.items()}, certainty)

    def defaults(self, reason: Reason = "llm_off") -> Choices:
        return Choices({name: Choice(field.default, reason) for name, field in self.fields.items()})

    def record_contract(self) -> type[Contract]:
        """Return the contract of a choice for the whole input. A wrong value is allowed: it becomes the default."""
        fields: dict[str, Any] = {
            name: (Annotated[Any, WithJsonSchema({"enum": field.allowed})], None) for name, field in self.fields.items()
        }
        fields[CERTAINTY] = (Annotated[Any, WithJsonSchema(dict(SHARE))], None)
        return create_model(self.title, __base__=_Record, **fields)

    def items_contract(self, most: int) -> type[Contract]:
        """The contract of a list ``items`` of at most ``most`` objects; an entry requires ``id`` and all fields."""
        properties: dict[str, Any] = {"id": {"type": "integer"}}
        properties |= {name: {"enum": field.allowed} for name, field in self.fields.items()}
        entry = {"type": "object", "properties": {**properties, CERTAINTY: SHARE}, "required": [*properties, CERTAINTY]}
        schema = {"type": "array", "maxItems": most, "items": entry}
        items: Any = (Annotated[list[dict[str, Any]], WithJsonSchema(schema)], ...)
        return create_model(self.title, __base__=_Items, items=items)


class Chooser(BaseAgent[ChooserConfig]):
    """Chooses one value a field from closed lists. A missing, forbidden or too uncertain value becomes the default."""

    def choose(self, parts: Mapping[str, str], meter: CostMeter) -> Choices:
        """Choose for the whole input in one call; ``parts`` are fenced."""
        [answer] = self._ask([self.messages(parts)], self.config.record_contract(), meter)
        return self.config.decide(answer)

    def choose_each(self, parts: Mapping[str, str], items: Sequence[str], meter: CostMeter) -> list[Choices]:
        """Choose for every item, in order, in as few calls as the input limit allows; its first entry counts."""
        groups = self.split(parts, list(enumerate(items, start=1)), self.config.max_items_per_call)
        if not groups:
            return []
        contract = self.config.items_contract(max(map(len, groups)))
        answers = self._ask([self.messages(parts, group) for group in groups], contract, meter)
        choices: dict[int, Choices] = {}
        for group, answer in zip(groups, answers, strict=True):
            own = {number for number, _ in group}
            for entry in answer["items"]:
                number = number_of(entry.get("id"))
                if number in own and number not in choices:
                    choices[number] = self.config.decide(entry)
        missing = self.config.defaults("missing")
        return [choices.get(number, missing) for number in range(1, len(items) + 1)]


class _Record(Contract):
    """An object with at least one of the fields; any other answers another question."""

    @model_validator(mode="before")
    @classmethod
    def _has_a_field(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and not any(name in value for name in cls.model_fields):
            raise ValueError(f"none of {', '.join(cls.model_fields)} is in it")
        return value


class _Items(Contract):
    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        return {"items": value} if isinstance(value, list) else value


def _plain(value: str) -> str:
    return _GAPS.sub(" ", value.casefold()).strip()
