"""A2: the manner of the answer (rule E6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ragtune.core.errors import ConfigError
from ragtune.core.request.context import CostMeter
from ragtune.superprompt.agents.chooser import Choice, Choices, Chooser, ChooserConfig
from ragtune.superprompt.limits import PipelineConfig
from ragtune.superprompt.stages.base import AgentStage
from ragtune.superprompt.super_prompt import SuperPrompt

FIELDS = ("system", "audience", "tone", "depth", "confidence")
"""The five meta-fields."""

PAYLOAD_KEYS = ("task", "context", "purpose")


class A2PromptShaper(AgentStage[Chooser, Sequence[Choices]]):
    """Chooses ``system``, ``audience``, ``tone``, ``depth`` and ``confidence`` from the configuration's enums.

    A value that the user wrote in a header stays; a value of the enum gets its usual form. Without a language model
    every other field gets the configuration's default. ``extras["a2_decisions"]`` holds each pass with the reason of
    every choice, and by field the written text and its author (``user``, ``agent``, ``default``).

    Args:
        config: configuration of the agent: enums, defaults, least confidence.
        agent: the chooser; None for no language model.
        passes: 1, or 2 for a refinement: the agent is asked again with its first answer in the input, and only the
            second answer counts.

    Raises:
        ConfigError: if the configuration does not choose exactly the five fields, has options, or lacks a default.
    """

    name: ClassVar[str] = "A2_PromptShaper"
    writes: ClassVar = frozenset({"body", "prompt_ready"})

    def __init__(self, config: ChooserConfig, agent: Chooser | None = None, passes: int = 1) -> None:
        super().__init__(agent)
        self.config = config
        self.passes = passes
        if passes not in (1, 2):
            raise ConfigError(f"a2 passes={passes!r}: allowed are 1 and 2")
        if config.options:
            raise ConfigError(f"agent {config.title}: options={dict(config.options)}: A2 has no options")
        if config.over != "record" or sorted(config.fields) != sorted(FIELDS):
            found = f"chooses {', '.join(config.fields)} over {config.over}"
            raise ConfigError(f"agent {config.title} {found}: allowed are {', '.join(FIELDS)} over record")
        if bare := [name for name, field in config.fields.items() if field.default is None]:
            raise ConfigError(f"agent {config.title}: field {bare[0]!r} has no default")

    def ask(self, agent: Chooser, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> Sequence[Choices]:
        parts = {key: sp.body.get(key, "") for key in PAYLOAD_KEYS}
        parts["raw_prompt"] = sp.user_text
        passes = [agent.choose(parts, meter)]
        if self.passes == 2:
            earlier = "\n".join(f"{name}: {choice.value}" for name, choice in passes[0].fields.items())
            passes.append(agent.choose({**parts, "earlier_answer": earlier}, meter))
        return passes

    def default(self, sp: SuperPrompt, config: PipelineConfig) -> Sequence[Choices]:
        return [self.config.defaults()]

    def write(self, sp: SuperPrompt, config: PipelineConfig, answer: Sequence[Choices]) -> None:
        """Write the choices of the last pass."""
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
        if users:
            allowed = field.match(users)
            return {"text": users if allowed is None else field.text(allowed), "by": "user"}
        return {"text": field.text(str(choice.value)), "by": "agent" if choice.reason == "agent" else "default"}
