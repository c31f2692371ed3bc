"""The chooser: closed choices, each matched or replaced by its default with a reason."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import Field, WithJsonSchema, create_model, model_validator

from ragtune.core.request.context import CostMeter
from ragtune.superprompt.agents.agent import SHARE, BaseAgent, Contract, number_of, share_of
from ragtune.superprompt.agents.agent import AgentConfig, Name
from ragtune.superprompt.frozen import Frozen

CERTAINTY = "certainty"
"""Name under which a chooser reports its confidence, in [0, 1]."""

_ID = "id"
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
        """Return the outcome as JSON values."""
        return {CERTAINTY: self.certainty, **{name: asdict(choice) for name, choice in self.fields.items()}}


class ChoiceField(Frozen):
    """One closed choice.

    Attributes:
        enum: allowed values; empty only in A0's file, because the prompt schema has its values.
        default: value for an answer that is missing, not allowed or too uncertain; None for no value.
        description: what to choose, in words for the prompt.
        texts: text in a prompt's body by value; a value without an entry stands for itself.
    """

    enum: tuple[str, ...] = ()
    default: str | None = None
    description: str = ""
    texts: Mapping[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _closed(self) -> Self:
        if len({_plain(value) for value in self.enum}) < len(self.enum):
            raise ValueError(f"enum={list(self.enum)}: two values differ only in case or spacing")
        named = [*([self.default] if self.default is not None else []), *self.texts]
        if self.enum and (strangers := [value for value in named if value not in self.enum]):
            raise ValueError(f"{strangers[0]!r} is not in the enum: allowed are {', '.join(self.enum)}")
        return self

    @property
    def allowed(self) -> list[str | None]:
        """The values of an answer, with None where no value is one."""
        return [*self.enum, *([None] if self.default is None else [])]

    def match(self, answer: object) -> str | None:
        """Return the allowed value that an answer names, in any case and spacing; None if it names none."""
        if not isinstance(answer, str):
            return None
        return next((value for value in self.enum if _plain(value) == _plain(answer)), None)

    def text(self, value: str) -> str:
        """Return the text that a value stands for in a prompt's body."""
        return self.texts.get(value, value)


class ChooserConfig(AgentConfig):
    """Chooses among closed values, once for the whole input or once for each item.

    Attributes:
        over: ``record`` or ``items``.
        fields: the choices.
        min_confidence: answers that state a lower certainty become the defaults; answers without one count.
        max_items_per_call: limit of items in one request.
    """

    kind: Literal["chooser"]
    over: Literal["record", "items"] = "record"
    fields: Mapping[Name, ChoiceField] = Field(min_length=1)
    min_confidence: float = Field(default=0.0, ge=0.0, le=1.0)
    max_items_per_call: int = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _reserved(self) -> Self:
        if taken := sorted({CERTAINTY, _ID} & set(self.fields)):
            raise ValueError(f"field {taken[0]!r}: that name is taken")
        if self.over == "record" and (open_ := [name for name, field in self.fields.items() if not field.enum]):
            raise ValueError(f"field {open_[0]!r} has no enum")
        return self

    def choices(self) -> str:
        return "\n".join(
            f"- {name}: {field.description + '; ' if field.description else ''}"
            f"one of {', '.join(json.dumps(value, ensure_ascii=False) for value in field.enum)}"
            f"{' or null' if field.default is None else ''}"
            for name, field in self.fields.items()
        )

    def answer(self, first: int) -> dict[str, Any]:
        choice: dict[str, Any] = {name: field.default or field.allowed[0] for name, field in self.fields.items()}
        choice[CERTAINTY] = 0.9
        return choice if self.over == "record" else {"items": [{_ID: first, **choice}]}

    def record_contract(self) -> type[Contract]:
        """Return the contract of a choice for the whole input: its fields, each with any value or none.

        A wrong value is no reason to ask again, because it becomes the default.
        """
        fields: dict[str, Any] = {
            name: (Annotated[Any, WithJsonSchema({"enum": field.allowed})], None) for name, field in self.fields.items()
        }
        fields[CERTAINTY] = (Annotated[Any, WithJsonSchema(dict(SHARE))], None)
        return create_model(self.title, __base__=_Record, **fields)

    def items_contract(self, most: int) -> type[Contract]:
        """Return the contract of choices for items: ``items``, a list of objects with ``id`` and the fields.

        For servers that enforce schemas, an entry requires all keys, and there are at most ``most`` entries. So a
        small model can neither leave a key out nor continue until its answer is cut off.
        """
        properties: dict[str, Any] = {_ID: {"type": "integer"}}
        properties |= {name: {"enum": field.allowed} for name, field in self.fields.items()}
        entry = {"type": "object", "properties": {**properties, CERTAINTY: SHARE}, "required": [*properties, CERTAINTY]}
        schema = {"type": "array", "maxItems": most, "items": entry}
        items: Any = (Annotated[list[dict[str, Any]], WithJsonSchema(schema)], ...)
        return create_model(self.title, __base__=_Items, items=items)

    def decide(self, said: Mapping[str, Any]) -> Choices:
        """Return the choices of an answer; every field gets an allowed value or its default."""
        certainty = share_of(said.get(CERTAINTY))
        is_sure = certainty is None or certainty >= self.min_confidence
        return Choices(
            {name: _choice(field, said.get(name), is_sure) for name, field in self.fields.items()}, certainty
        )

    def defaults(self, reason: Reason = "llm_off") -> Choices:
        """Return the default of every field."""
        return Choices({name: Choice(field.default, reason) for name, field in self.fields.items()})


class Chooser(BaseAgent[ChooserConfig]):
    """Chooses one value a field from closed lists. A missing, forbidden or too uncertain value becomes the default."""

    def choose(self, parts: Mapping[str, str], meter: CostMeter) -> Choices:
        """Choose for the whole input in one call; ``parts`` are fenced."""
        [answer] = self._ask([self.prompt.messages(parts)], self.config.record_contract(), meter)
        return self.config.decide(answer)

    def choose_each(self, parts: Mapping[str, str], items: Sequence[str], meter: CostMeter) -> list[Choices]:
        """Choose for every item, in order, in as few calls as the input limit allows.

        Items are numbered from 1 through all calls. An answer counts for the items of its own call only, and the first
        entry for an item counts. An item without an entry gets the defaults.
        """
        numbered = list(enumerate(items, start=1))
        groups = self.prompt.split(parts, numbered, self.config.max_items_per_call)
        if not groups:
            return []
        contract = self.config.items_contract(max(map(len, groups)))
        answers = self._ask([self.prompt.messages(parts, group) for group in groups], contract, meter)
        entries: dict[int, Mapping[str, Any]] = {}
        for group, answer in zip(groups, answers, strict=True):
            own = {number for number, _ in group}
            for entry in answer["items"]:
                number = number_of(entry.get(_ID))
                if number in own:
                    entries.setdefault(number, entry)
        return [
            self.config.decide(entries[number]) if number in entries else self.config.defaults("missing")
            for number, _ in numbered
        ]


class _Record(Contract):
    """An object with at least one of the fields; any other answers another question."""

    @model_validator(mode="before")
    @classmethod
    def _has_a_field(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and not any(name in value for name in cls.model_fields):
            raise ValueError(f"none of {', '.join(cls.model_fields)} is in it")
        return value


class _Items(Contract):
    """An object with the list ``items``, or the list alone."""

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        return {"items": value} if isinstance(value, list) else value


def _choice(field: ChoiceField, said: Any, is_sure: bool) -> Choice:
    if said is None:
        return Choice(field.default, "missing")
    text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    shown = text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."
    matched = field.match(said)
    if matched is None:
        return Choice(field.default, "clamped", shown)
    return Choice(matched, "agent", shown) if is_sure else Choice(field.default, "uncertain", shown)


def _plain(value: str) -> str:
    return _GAPS.sub(" ", value.casefold()).strip()
