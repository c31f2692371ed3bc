"""What an agent is told, as data: a JSON file of one of three kinds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, model_validator

CERTAINTY = "certainty"
"""Name under which a chooser may say how sure it is, in [0, 1]."""

ITEM_ID = "id"

PLACEHOLDERS = frozenset({"payload", "choices", "answer"})
"""Names that a prompt may hold in braces; see :class:`ragtune.superprompt.agents.prompt.AgentPrompt`."""

_PLACEHOLDER = re.compile(r"\{([a-z_][a-z0-9_]*)\}")
_GAPS = re.compile(r"[\s_\-]+")

Text = Annotated[str, BeforeValidator(lambda value: "\n".join(value) if isinstance(value, list) else value)]
"""A text, in JSON also as a list of its lines."""

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]


class AgentPromptText(BaseModel):
    """The two messages. ``{payload}`` stands in the user's only: what is not ours never speaks as the system.

    Attributes:
        system: who the agent is and what it must not do.
        user: the question, with ``{payload}`` where the fenced input goes.
    """

    system: Text = Field(min_length=1)
    user: Text = Field(min_length=1)

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="after")
    def _placeholders(self) -> Self:
        in_system, in_user = (set(_PLACEHOLDER.findall(text)) for text in (self.system, self.user))
        if unknown := sorted((in_system | in_user) - PLACEHOLDERS):
            raise ValueError(f"placeholder {{{unknown[0]}}}: allowed are {', '.join(sorted(PLACEHOLDERS))}")
        if "payload" not in in_user or "payload" in in_system:
            raise ValueError("{payload} must stand in the user's text, and only there")
        return self


class ChoiceField(BaseModel):
    """One closed choice.

    Attributes:
        enum: values that are allowed; empty where each call gives its own.
        default: value in place of an answer that is missing, not allowed or not sure enough; None for no value.
        description: what is to be chosen, in words for the prompt.
        texts: text in a prompt's body by value; a value without an entry is its own text.
    """

    enum: tuple[str, ...] = ()
    default: str | None = None
    description: str = ""
    texts: Mapping[str, str] = Field(default_factory=dict)

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="after")
    def _closed(self) -> Self:
        if len({_plain(value) for value in self.enum}) < len(self.enum):
            raise ValueError(f"enum={list(self.enum)}: two values differ only in case or spacing")
        named = [*([self.default] if self.default is not None else []), *self.texts]
        if self.enum and (strangers := [value for value in named if value not in self.enum]):
            raise ValueError(f"{strangers[0]!r} is not in the enum: allowed are {', '.join(self.enum)}")
        return self

    def match(self, said: object, enum: Sequence[str] | None = None) -> str | None:
        """The allowed value that ``said`` names, whatever its case and spacing; None if it names none."""
        if not isinstance(said, str):
            return None
        return next((value for value in enum or self.enum if _plain(value) == _plain(said)), None)

    def text(self, value: str) -> str:
        """The text that a value stands for in a prompt's body."""
        return self.texts.get(value, value)


class AgentConfig(BaseModel):
    """What all kinds have in common.

    Attributes:
        agent_name: name of the stage that the agent serves.
        version: version of the configuration file.
        model: name of the model, as the server spells it; None takes the client's own.
        temperature: temperature of sampling; None takes the client's own, which is 0 by default.
        max_input_tokens: the most tokens of all messages together, where items can be split over calls or left out.
        max_part_tokens: the most tokens of each named part of the input; longer parts are cut, visibly.
        max_item_tokens: the most tokens of each item of the input; longer items are cut, visibly.
        max_output_tokens: the most tokens of an answer.
        prompt: the two messages.
        options: the stage's own numbers and words, validated by the stage.
    """

    agent_name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,39}$")
    version: str = Field(pattern=r"^v[0-9]{1,6}$")
    model: str | None = None
    temperature: float | None = Field(default=None, ge=0.0, allow_inf_nan=False)
    max_input_tokens: int = Field(ge=1)
    max_part_tokens: int = Field(ge=1)
    max_item_tokens: int = Field(default=1, ge=1)
    max_output_tokens: int = Field(ge=1)
    prompt: AgentPromptText
    options: Mapping[str, Any] = Field(default_factory=dict)

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def title(self) -> str:
        """Name and version in one word."""
        return f"{self.agent_name}_{self.version}"


class ChooserConfig(AgentConfig):
    """Chooses among closed values, once for the whole input or once for each item.

    Attributes:
        over: ``record`` or ``items``.
        fields: the choices.
        min_confidence: answers with a lower stated certainty give way to the defaults; without one they are believed.
        item_label: what an item is called, in lower-case letters.
        max_items_per_call: the most items of one request.
    """

    kind: Literal["chooser"]
    over: Literal["record", "items"] = "record"
    fields: Mapping[Name, ChoiceField] = Field(min_length=1)
    min_confidence: float = Field(default=0.0, ge=0.0, le=1.0)
    item_label: Name = "item"
    max_items_per_call: int = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _reserved(self) -> Self:
        if taken := sorted({CERTAINTY, ITEM_ID} & set(self.fields)):
            raise ValueError(f"field {taken[0]!r}: that name is taken")
        if self.over == "record" and (open_ := [name for name, field in self.fields.items() if not field.enum]):
            raise ValueError(f"field {open_[0]!r} has no enum")
        return self


class ExtractedKey(BaseModel):
    """One thing to extract.

    Attributes:
        type: ``text``, or ``list`` of texts.
        required: whether an answer without it is no answer.
        description: what is to be extracted, in words for the prompt.
        max_tokens: the most tokens of the text, or of each text of the list; longer texts are cut.
        max_items: the most items of a list; further items are left out.
    """

    type: Literal["text", "list"]
    required: bool
    description: str = ""
    max_tokens: int = Field(ge=1)
    max_items: int = Field(default=1, ge=1)

    model_config = ConfigDict(frozen=True, extra="forbid")


class ExtractorConfig(AgentConfig):
    """Fills fixed keys.

    Attributes:
        keys: the keys that are filled, by name.
    """

    kind: Literal["extractor"]
    keys: Mapping[Name, ExtractedKey] = Field(min_length=1)


class WriterConfig(AgentConfig):
    """Writes Markdown from items.

    Attributes:
        text_key: name of the Markdown in the answer.
        scores_key: name of the items' relevance in the answer.
        sections: headings of the Markdown, in their order; what stands before the first belongs to it.
        max_text_tokens: the most tokens of the Markdown; a longer text loses lines from the end of its longest section.
        item_label: what an item is called.
    """

    kind: Literal["writer"]
    text_key: Name
    scores_key: Name
    sections: tuple[str, ...] = Field(min_length=1)
    max_text_tokens: int = Field(ge=1)
    item_label: Name = "item"

    @model_validator(mode="after")
    def _room_for_headings(self) -> Self:
        if self.max_text_tokens < (least := 16 * len(self.sections)):
            raise ValueError(f"max_text_tokens={self.max_text_tokens}: {len(self.sections)} sections need {least}")
        return self


AnyConfig = Annotated[ChooserConfig | ExtractorConfig | WriterConfig, Field(discriminator="kind")]
CONFIG: TypeAdapter[ChooserConfig | ExtractorConfig | WriterConfig] = TypeAdapter(AnyConfig)


def _plain(value: str) -> str:
    return _GAPS.sub(" ", value.casefold()).strip()
