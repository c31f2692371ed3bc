"""A2: in which manner the prompt is to be answered (rule E6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from ragtune.core.errors import ConfigError
from ragtune.core.request.context import CostMeter
from ragtune.superprompt.agents.choices import Choice, Choices, defaults
from ragtune.superprompt.agents.chooser import Chooser
from ragtune.superprompt.agents.config import ChooserConfig
from ragtune.superprompt.agents.options import stage_options
from ragtune.superprompt.limits import PipelineConfig
from ragtune.superprompt.stages.agent import AgentStage
from ragtune.superprompt.super_prompt import SuperPrompt

FIELDS = ("system", "audience", "tone", "depth", "confidence")
"""The five meta-fields."""

PAYLOAD_KEYS = ("task", "context", "purpose")


class ShaperOptions(BaseModel):
    """``options`` of the agent configuration.

    Attributes:
        user_values: what becomes of a meta-field that the user wrote: ``keep`` lets any text stand, ``if_allowed`` only
            a value of the enum, ``replace`` none.
    """

    user_values: Literal["keep", "if_allowed", "replace"]

    model_config = ConfigDict(frozen=True, extra="forbid")


class A2PromptShaper(AgentStage[Chooser, Sequence[Choices]]):
    """Chooses ``system``, ``audience``, ``tone``, ``depth`` and ``confidence`` from the configuration's enums.

    What the user wrote in a header of the prompt is not overwritten silently: see :class:`ShaperOptions`; what the
    agent chose for it is in the log all the same. Without a language model every other field gets the configuration's
    default. ``extras["a2_decisions"]`` holds each pass (what was said, what became of it and why) and for each field
    what was written and by whom (``user``, ``agent``, ``default``).

    Args:
        config: configuration of the agent: enums, defaults, least confidence.
        agent: the chooser; None for no language model.
        passes: 1, or 2 for a refinement: the same agent is asked again with its first answer in the input, and only the
            second one is written.

    Raises:
        ConfigError: if the configuration does not choose exactly the five fields, or one has no default.
    """

    name: ClassVar[str] = "A2_PromptShaper"
    requires: ClassVar = "preprocessed"
    completes: ClassVar = "a2"
    writes: ClassVar = frozenset({"body", "prompt_ready"})

    def __init__(self, config: ChooserConfig, agent: Chooser | None = None, passes: int = 1) -> None:
        super().__init__(agent)
        self.config = config
        self.passes = passes
        self.options = stage_options(config, ShaperOptions)
        if passes not in (1, 2):
            raise ConfigError(f"a2 passes={passes!r}: allowed are 1 and 2")
        if sorted(config.fields) != sorted(FIELDS):
            raise ConfigError(
                f"agent {config.title} chooses {', '.join(config.fields)}: allowed are {', '.join(FIELDS)}"
            )
        if bare := [name for name, field in config.fields.items() if field.default is None]:
            raise ConfigError(f"agent {config.title}: field {bare[0]!r} has no default")

    def ask(self, agent: Chooser, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> Sequence[Choices]:
        parts = {key: sp.body.get(key, "") for key in PAYLOAD_KEYS}
        parts["raw_prompt"] = sp.user_text
        passes: list[Choices] = []
        for _ in range(self.passes):
            earlier = {"earlier_answer": _earlier(passes[-1])} if passes else {}
            passes.append(agent.choose({**parts, **earlier}, meter))
        return passes

    def default(self, sp: SuperPrompt, config: PipelineConfig) -> Sequence[Choices]:
        return [defaults(self.config)]

    def write(self, sp: SuperPrompt, config: PipelineConfig, answer: Sequence[Choices]) -> None:
        """The answer is what was chosen, pass by pass; the last one counts."""
        written = {name: self._written(sp, name, answer[-1].fields[name]) for name in FIELDS}
        body = sp.body | {name: entry["text"] for name, entry in written.items()}
        sp.body = {key: body[key] for key in config.prompt_schema.keys if key in body}
        sp.extras["a2_decisions"] = {
            "agent": self.config.agent_name,
            "version": self.config.version,
            "passes": [choices.log() for choices in answer],
            "fields": written,
        }

    def _written(self, sp: SuperPrompt, name: str, choice: Choice) -> dict[str, Any]:
        field = self.config.fields[name]
        users = "" if name in sp.extras.get("defaults_used", []) else sp.body.get(name, "")
        allowed = field.match(users)
        if users and self.options.user_values != "replace":
            if allowed is not None:
                return {"text": field.text(allowed), "by": "user"}
            if self.options.user_values == "keep":
                return {"text": users, "by": "user"}
        entry: dict[str, Any] = {"text": field.text(str(choice.value))}
        entry["by"] = "agent" if choice.reason == "agent" else "default"
        return entry | ({"instead_of": users} if users else {})


def _earlier(choices: Choices) -> str:
    return "\n".join(f"{name}: {choice.value}" for name, choice in choices.fields.items())
