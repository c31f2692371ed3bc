"""A2: the manner of the answer (rule E6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from pydantic import model_validator

from ragtune.core.request.context import CostMeter
from ragtune.superprompt.agents.chooser import Choice, Choices, Chooser, ChooserConfig
from ragtune.superprompt.options import PipelineConfig
from ragtune.superprompt.reading.details import audience_in
from ragtune.superprompt.rendering import RETRIEVAL_KEYS
from ragtune.superprompt.stages.base import AgentStage
from ragtune.superprompt.super_prompt import SuperPrompt

FIELDS = ("system", "audience", "tone", "depth", "confidence")
"""The five meta-fields."""


class ShaperConfig(ChooserConfig):
    """The chooser of the five meta-fields, each with a default."""

    @model_validator(mode="after")
    def _five_fields(self) -> Self:
        if sorted(self.fields) != sorted(FIELDS) or any(field.default is None for field in self.fields.values()):
            raise ValueError(f"allowed are the fields {', '.join(FIELDS)}, each with a default")
        return self


class A2PromptShaper(AgentStage[ShaperConfig, Chooser, Sequence[Choices]]):
    """Chooses the five meta-fields; a value that the user wrote stays. Of two passes only the second answer counts."""

    name: ClassVar[str] = "A2_PromptShaper"

    def __init__(self, config: ShaperConfig, agent: Chooser | None = None, passes: int = 1) -> None:
        super().__init__(config, agent)
        self.passes = passes

    def ask(self, agent: Chooser, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> Sequence[Choices]:
        parts = {key: sp.body.get(key, "") for key in RETRIEVAL_KEYS}
        parts["raw_prompt"] = sp.user_text
        passes = [agent.choose(parts, meter)]
        if self.passes == 2:
            earlier = "\n".join(f"{name}: {choice.value}" for name, choice in passes[0].fields.items())
            passes.append(agent.choose({**parts, "earlier_answer": earlier}, meter))
        return passes

    def default(self, sp: SuperPrompt, config: PipelineConfig) -> Sequence[Choices]:
        return [self.config.defaults()]

    def write(self, sp: SuperPrompt, config: PipelineConfig, answer: Sequence[Choices]) -> None:
        written = {name: self._written(sp, name, answer[-1].fields[name]) for name in FIELDS}
        body = sp.body | {name: entry["text"] for name, entry in written.items()}
        sp.body = {key: body[key] for key in config.prompt_schema.keys if key in body}
        sp.extras["a2_decisions"] = self.config.log() | {
            "passes": [choices.log() for choices in answer],
            "fields": written,
        }

    def _written(self, sp: SuperPrompt, name: str, choice: Choice) -> dict[str, Any]:
        field = self.config.fields[name]
        users = "" if name in sp.extras.get("defaults_used", []) else sp.body.get(name, "")
        if users:
            allowed = field.match(users)
            return {"text": users if allowed is None else field.text(allowed), "by": "user"}
        if name == "audience" and (audience := audience_in(sp.body.get("task", ""))):
            return {"text": audience, "by": "task"}
        return {"text": field.text(str(choice.value)), "by": "agent" if choice.reason == "agent" else "default"}
