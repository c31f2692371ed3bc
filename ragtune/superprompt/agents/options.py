"""A stage's own part of its agent's configuration."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from ragtune.core.errors import ConfigError
from ragtune.superprompt.agents.config import AgentConfig

T = TypeVar("T", bound=BaseModel)


def stage_options(config: AgentConfig, kind: type[T]) -> T:
    """``config.options`` as what the stage knows.

    Raises:
        ConfigError: if the options do not fit; the message names the agent and what is wrong.
    """
    try:
        return kind.model_validate(config.options)
    except ValidationError as error:
        flaws = error.errors(include_url=False, include_context=False)
        said = "; ".join(f"options.{'.'.join(map(str, flaw['loc']))}: {flaw['msg']}" for flaw in flaws)
        raise ConfigError(f"agent {config.title}: {said}") from error
