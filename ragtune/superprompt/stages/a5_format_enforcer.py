"""A5: the format of the answer, stated so that a model obeys (rule E11)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, StringConstraints

from ragtune.core.request.context import CostMeter
from ragtune.superprompt.agents.agent import AgentConfig, BaseAgent, Contract, bounded, cut, tidy
from ragtune.superprompt.options import PipelineConfig
from ragtune.superprompt.reading.details import Details, language_in
from ragtune.superprompt.reading.formats import FormatRecipe, format_in_task, recipe_for
from ragtune.superprompt.reading.text import clean, one_line
from ragtune.superprompt.rendering import RULE_KEYS, prompt_md, system_md
from ragtune.superprompt.stages.base import AgentStage
from ragtune.superprompt.super_prompt import SuperPrompt

KEYS = ("normalized_format_spec", "example_shape", "hard_rules")
"""Keys of ``extras["format_enforcer"]``: two texts and a list of texts."""

_FORMAT, _LANGUAGE = "{format}", "{language}"


def _as_text(value: Any) -> Any:
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False, indent=2) if isinstance(value, dict | list) else value


def _as_list(value: Any) -> Any:
    if value is None:
        return []
    return [line for line in value.split("\n") if line.strip()] if isinstance(value, str) else value


_TEXT = BeforeValidator(_as_text)


class ExtractedFormat(Contract):
    """The extractor's answer. JSON in place of a text is written out."""

    normalized_format_spec: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1), _TEXT]
    example_shape: Annotated[str, _TEXT] = ""
    hard_rules: Annotated[list[str], BeforeValidator(_as_list)] = Field(default_factory=list)


class EnforcerConfig(AgentConfig):
    """The extractor, with the limits of its texts, and recipes of formats, the stricter ones first.

    ``as_requested`` adds the user's words to a recipe. A format without a recipe gets ``unknown_rules``.
    ``in_language`` is the rule for a language that the request names or is written in.
    """

    max_spec_tokens: int = Field(ge=1)
    max_example_tokens: int = Field(ge=1)
    max_rule_tokens: int = Field(ge=1)
    max_rules: int = Field(ge=1)
    unknown_rules: tuple[str, ...]
    as_requested: str = Field(pattern=r"\{format\}")
    in_language: str = Field(pattern=r"\{language\}")
    formats: tuple[FormatRecipe, ...]

    def answer(self, first: int | None) -> dict[str, Any]:
        return dict(zip(KEYS, ("...", "...", ["..."]), strict=True))


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
        [said] = self._ask([self.messages(parts)], ExtractedFormat, meter)
        limits = self.config
        spec = bounded(tidy(said["normalized_format_spec"]), limits.max_spec_tokens)
        example = bounded(tidy(said["example_shape"]), limits.max_example_tokens)
        rules = [one_line(bounded(tidy(text), limits.max_rule_tokens)) for text in said["hard_rules"]]
        return Format(spec, example, tuple([rule for rule in rules if rule][: limits.max_rules]))


class A5FormatEnforcer(AgentStage[EnforcerConfig, Extractor, Format]):
    """Normalises the format and restates the rules; without a model a recipe does. Selection and S_CTX_MD stay."""

    name: ClassVar[str] = "A5_Format_Enforcer"

    def ask(self, agent: Extractor, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> Format:
        parts = {
            "system": system_md(sp, config.prompt_schema),
            "prompt": prompt_md(sp, config.prompt_schema),
            **{key: sp.body.get(key, "") for key in ("format", "constraints", *RULE_KEYS)},
        }
        return agent.extract(parts, meter)

    def default(self, sp: SuperPrompt, config: PipelineConfig) -> Format:
        asked = clean(sp.body.get("format", "")).strip()
        task = cut(sp.body.get("task", ""), self.config.max_part_tokens)
        recipe = recipe_for(cut(asked, self.config.max_part_tokens), self.config.formats)
        read = asked
        if not asked or "format" in sp.extras.get("defaults_used", ()):
            # The user named no format in a header, but the task may ask for one.
            found = format_in_task(task, self.config.formats)
            recipe, asked = found or (recipe, asked)
            read = task
        details = Details.of(read)
        rules = details.rules(recipe.name if recipe else "", recipe is not None and recipe.fenced)
        if (language := language_in(task)) is not None:
            rules.append(self.config.in_language.replace(_LANGUAGE, language))
        if recipe is None:
            return Format(asked, "", (*(self.config.unknown_rules if asked else ()), *rules))
        spec = recipe.spec
        if not recipe.is_all_of(asked):
            spec = f"{spec} {self.config.as_requested.replace(_FORMAT, asked)}"
        own = [rule for rule in recipe.rules if not (details.separator != "," and "commas" in rule)]
        if details.has_no_header:
            spec, *own = (text.replace("with one header row", "without a header row") for text in (spec, *own))
        return Format(spec, details.shape(recipe.name, recipe.example), (*own, *rules), recipe.name)

    def write(self, sp: SuperPrompt, config: PipelineConfig, answer: Format) -> None:
        before = sp.body.get("format", "")
        own = [one_line(line) for key in RULE_KEYS for line in clean(sp.body.get(key, "")).split("\n")]
        rules = list(dict.fromkeys(rule for rule in [*own, *answer.rules] if rule))
        sp.extras["format_enforcer"] = dict(zip(KEYS, (answer.spec, answer.example, rules), strict=True))
        sp.extras["a5_decisions"] = self.config.log() | {"recipe": answer.recipe, "format_before": before}
        if answer.spec:
            sp.body = sp.body | {"format": answer.spec}
