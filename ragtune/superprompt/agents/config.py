"""Configurations of agents: one JSON file each, of one of three kinds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter, ValidationError, model_validator

from ragtune.core.errors import ConfigError
from ragtune.superprompt.frozen import Frozen, flaws_in

CERTAINTY = "certainty"
"""Name under which a chooser reports its confidence, in [0, 1]."""

ITEM_ID = "id"

PLACEHOLDERS = frozenset({"payload", "choices", "answer"})
"""Names that a prompt may hold in braces; see :class:`ragtune.superprompt.agents.prompt.AgentPrompt`."""

_PLACEHOLDER = re.compile(r"\{([a-z_][a-z0-9_]*)\}")
_GAPS = re.compile(r"[\s_\-]+")

Text = Annotated[str, BeforeValidator(lambda value: "\n".join(value) if isinstance(value, list) else value)]
"""A text. JSON may hold it as a list of its lines."""

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
OptionsT = TypeVar("OptionsT", bound=BaseModel)


class AgentPromptText(Frozen):
    """The two messages of a call. Only the user's message holds ``{payload}``, so input never speaks as the system.

    Attributes:
        system: role and prohibitions of the agent.
        user: the question, with ``{payload}`` in place of the fenced input.
    """

    system: Text = Field(min_length=1)
    user: Text = Field(min_length=1)

    @model_validator(mode="after")
    def _placeholders(self) -> Self:
        in_system, in_user = (set(_PLACEHOLDER.findall(text)) for text in (self.system, self.user))
        if unknown := sorted((in_system | in_user) - PLACEHOLDERS):
            raise ValueError(f"placeholder {{{unknown[0]}}}: allowed are {', '.join(sorted(PLACEHOLDERS))}")
        if "payload" not in in_user or "payload" in in_system:
            raise ValueError("{payload} must stand in the user's text, and only there")
        return self


class ChoiceField(Frozen):
    """One closed choice.

    Attributes:
        enum: allowed values; empty where each call gives its own.
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

    def match(self, answer: object, enum: Sequence[str] | None = None) -> str | None:
        """Return the allowed value that an answer names, in any case and spacing; None if it names none."""
        if not isinstance(answer, str):
            return None
        return next((value for value in enum or self.enum if _plain(value) == _plain(answer)), None)

    def text(self, value: str) -> str:
        """Return the text that a value stands for in a prompt's body."""
        return self.texts.get(value, value)


class AgentConfig(Frozen):
    """Settings that all three kinds share.

    Attributes:
        agent_name: name of the stage that the agent serves.
        version: version of the configuration file.
        model: name of the model, as the server spells it; None takes the client's.
        temperature: sampling temperature; None takes the client's, which is 0 by default.
        max_input_tokens: limit of all messages together, where items can be split over calls or left out.
        max_part_tokens: limit of each named part of the input; longer parts are cut and marked.
        max_item_tokens: limit of each item of the input; longer items are cut and marked.
        max_output_tokens: limit of an answer.
        prompt: the two messages.
        options: the stage's own settings, which the stage validates.
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

    @property
    def title(self) -> str:
        """Name and version in one word."""
        return f"{self.agent_name}_{self.version}"

    def options_as(self, kind: type[OptionsT]) -> OptionsT:
        """Return ``options`` as a stage's model of them.

        Raises:
            ConfigError: if the options do not fit; the message names the agent and every flaw.
        """
        try:
            return kind.model_validate(self.options)
        except ValidationError as error:
            raise ConfigError(f"agent {self.title}: options.{flaws_in(error)}") from error


class ChooserConfig(AgentConfig):
    """Chooses among closed values, once for the whole input or once for each item.

    Attributes:
        over: ``record`` or ``items``.
        fields: the choices.
        min_confidence: answers that state a lower certainty become the defaults; answers without one count.
        item_label: name of an item, in lower-case letters.
        max_items_per_call: limit of items in one request.
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


class ExtractedKey(Frozen):
    """One key to extract.

    Attributes:
        type: ``text``, or ``list`` of texts.
        required: whether an answer must have the key.
        description: what to extract, in words for the prompt.
        max_tokens: limit of the text, or of each text of the list; longer texts are cut.
        max_items: limit of a list; further items are left out.
    """

    type: Literal["text", "list"]
    required: bool
    description: str = ""
    max_tokens: int = Field(ge=1)
    max_items: int = Field(default=1, ge=1)


class ExtractorConfig(AgentConfig):
    """Fills fixed keys.

    Attributes:
        keys: the keys by name.
    """

    kind: Literal["extractor"]
    keys: Mapping[Name, ExtractedKey] = Field(min_length=1)


class WriterConfig(AgentConfig):
    """Writes Markdown from items.

    Attributes:
        text_key: name of the Markdown in the answer.
        scores_key: name of the items' relevance in the answer.
        sections: headings of the Markdown in order; text before the first heading belongs to the first section.
        max_text_tokens: limit of the Markdown; a longer text loses lines from the end of its longest section.
        item_label: name of an item.
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
