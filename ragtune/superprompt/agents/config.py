"""What the configurations of all agents share: one JSON file each."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, model_validator

from ragtune.core.errors import ConfigError
from ragtune.superprompt.frozen import Frozen, flaws_in

PLACEHOLDER = re.compile(r"\{([a-z_][a-z0-9_]*)\}")
_ALLOWED = frozenset({"payload", "choices", "answer"})

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
        in_system, in_user = (set(PLACEHOLDER.findall(text)) for text in (self.system, self.user))
        if unknown := sorted((in_system | in_user) - _ALLOWED):
            raise ValueError(f"placeholder {{{unknown[0]}}}: allowed are {', '.join(sorted(_ALLOWED))}")
        if "payload" not in in_user or "payload" in in_system:
            raise ValueError("{payload} must stand in the user's text, and only there")
        return self


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
        item_label: name of an item of the input, in lower-case letters.
        prompt: the two messages.
        options: the stage's own settings, which the stage validates.
    """

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
    options: Mapping[str, Any] = Field(default_factory=dict)

    @property
    def title(self) -> str:
        """Name and version in one word."""
        return f"{self.agent_name}_{self.version}"

    @abstractmethod
    def choices(self) -> str:
        """Return the allowed answers in words, for ``{choices}``."""

    @abstractmethod
    def answer(self, first: int) -> dict[str, Any]:
        """Return an example of an answer, for ``{answer}``; ``first`` is the number of the first item."""

    def options_as(self, kind: type[OptionsT]) -> OptionsT:
        """Return ``options`` as a stage's model of them."""
        try:
            return kind.model_validate(self.options)
        except ValidationError as error:
            raise ConfigError(f"agent {self.title}: options.{flaws_in(error)}") from error
