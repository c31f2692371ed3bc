"""A5: the format of the answer, stated so that a model obeys (rule E11)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, StringConstraints, create_model, model_validator

from ragtune.core.request.context import CostMeter
from ragtune.superprompt.agents.agent import AgentConfig, BaseAgent, Contract, bounded, cut, tidy
from ragtune.superprompt.frozen import Frozen
from ragtune.superprompt.options import PipelineConfig
from ragtune.superprompt.reading.formats import FormatRecipe, format_in_task, recipe_for
from ragtune.superprompt.reading.text import clean, one_line
from ragtune.superprompt.rendering import RULE_KEYS, prompt_md, system_md
from ragtune.superprompt.stages.base import AgentStage
from ragtune.superprompt.super_prompt import SuperPrompt

KEYS = ("normalized_format_spec", "example_shape", "hard_rules")
"""Keys of ``extras["format_enforcer"]``: two texts and a list of texts."""

_FORMAT = "{format}"


class ExtractedKey(Frozen):
    """One key to extract: a text, or a list of texts. ``max_tokens`` is the limit of each text."""

    type: Literal["text", "list"]
    required: bool
    description: str = ""
    max_tokens: int = Field(ge=1)
    max_items: int = Field(default=1, ge=1)


class EnforcerConfig(AgentConfig):
    """The extractor of :data:`KEYS`, and recipes of formats, the stricter ones first.

    ``as_requested`` adds the user's words to a recipe. A format without a recipe gets ``unknown_rules``.
    """

    keys: Mapping[str, ExtractedKey]
    unknown_rules: tuple[str, ...]
    as_requested: str = Field(pattern=r"\{format\}")
    formats: tuple[FormatRecipe, ...]

    @model_validator(mode="after")
    def _keys(self) -> Self:
        types = {name: key.type for name, key in self.keys.items()}
        if types != dict(zip(KEYS, ("text", "text", "list"), strict=True)):
            raise ValueError(f"extracts {types}: allowed are {', '.join(KEYS)}, the last a list")
        return self

    def choices(self) -> str:
        return "\n".join(
            f"- {name}: {key.description} ({key.type}, at most {key.max_tokens} tokens"
            f"{' each, ' + str(key.max_items) + ' entries' if key.type == 'list' else ''}"
            f"{'' if key.required else '; may be left out'})"
            for name, key in self.keys.items()
        )

    def answer(self, first: int | None) -> dict[str, Any]:
        return {name: "..." if key.type == "text" else ["..."] for name, key in self.keys.items()}

    def contract(self) -> type[Contract]:
        """Return the contract: required keys are not empty; JSON in place of a text is written out."""
        fields: dict[str, Any] = {}
        for name, key in self.keys.items():
            least = 1 if key.required else 0
            if key.type == "text":
                constraints = StringConstraints(strip_whitespace=True, min_length=least)
                fields[name] = (Annotated[str, constraints, BeforeValidator(_as_text)], ... if key.required else "")
            else:
                kind = Annotated[list[str], Field(min_length=least), BeforeValidator(_as_list)]
                fields[name] = (kind, ... if key.required else [])
        return create_model(self.title, __base__=Contract, **fields)


@dataclass(frozen=True)
class Format:
    """The format of the answer: description, example, rules besides the prompt's own, and the recipe's name."""

    spec: str
    example: str
    rules: tuple[str, ...]
    recipe: str | None = None


class Extractor(BaseAgent[EnforcerConfig]):
    """Fills the keys with texts and lists of texts within their limits, in one call."""

    def extract(self, parts: Mapping[str, str], meter: CostMeter) -> Format:
        [said] = self._ask([self.messages(parts)], self.config.contract(), meter)
        spec, example = (bounded(tidy(said[name]), self.config.keys[name].max_tokens) for name in KEYS[:2])
        key = self.config.keys[KEYS[2]]
        rules = [one_line(bounded(tidy(text), key.max_tokens)) for text in said[KEYS[2]]]
        return Format(spec, example, tuple([rule for rule in rules if rule][: key.max_items]))


class A5FormatEnforcer(AgentStage[EnforcerConfig, Extractor, Format]):
    """Normalises the format and restates the rules; without a model a recipe does. Selection and S_CTX_MD stay."""

    name: ClassVar[str] = "A5_Format_Enforcer"
    writes: ClassVar = frozenset({"body", "prompt_ready"})

    def ask(self, agent: Extractor, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> Format:
        parts = {
            "system": system_md(sp, config.prompt_schema),
            "prompt": prompt_md(sp, config.prompt_schema),
            **{key: sp.body.get(key, "") for key in ("format", "constraints", *RULE_KEYS)},
        }
        return agent.extract(parts, meter)

    def default(self, sp: SuperPrompt, config: PipelineConfig) -> Format:
        asked = clean(sp.body.get("format", "")).strip()
        recipe = recipe_for(cut(asked, self.config.max_part_tokens), self.config.formats)
        if not asked or "format" in sp.extras.get("defaults_used", ()):
            # The user named no format in a header, but the task may ask for one.
            found = format_in_task(cut(sp.body.get("task", ""), self.config.max_part_tokens), self.config.formats)
            recipe, asked = found or (recipe, asked)
        if recipe is None:
            return Format(asked, "", self.config.unknown_rules if asked else ())
        spec = recipe.spec
        if not recipe.is_all_of(asked):
            spec = f"{spec} {self.config.as_requested.replace(_FORMAT, asked)}"
        return Format(spec, recipe.example, recipe.rules, recipe.name)

    def write(self, sp: SuperPrompt, config: PipelineConfig, answer: Format) -> None:
        before = sp.body.get("format", "")
        own = [one_line(line) for key in RULE_KEYS for line in clean(sp.body.get(key, "")).split("\n")]
        rules = list(dict.fromkeys(rule for rule in [*own, *answer.rules] if rule))
        sp.extras["format_enforcer"] = dict(zip(KEYS, (answer.spec, answer.example, rules), strict=True))
        sp.extras["a5_decisions"] = self.config.log() | {"recipe": answer.recipe, "format_before": before}
        if answer.spec:
            sp.body = sp.body | {"format": answer.spec}


def _as_text(value: Any) -> Any:
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False, indent=2) if isinstance(value, dict | list) else value


def _as_list(value: Any) -> Any:
    if value is None:
        return []
    return [line for line in value.split("\n") if line.strip()] if isinstance(value, str) else value
