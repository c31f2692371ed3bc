"""A5: the format of the answer, stated so that a model obeys (rule E11)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from pydantic import Field, model_validator

from ragtune.core.request.context import CostMeter
from ragtune.superprompt.agents.agent import cut
from ragtune.superprompt.agents.extractor import Extractor, ExtractorConfig
from ragtune.superprompt.frozen import Frozen
from ragtune.superprompt.limits import PipelineConfig
from ragtune.superprompt.reading.formats import FormatRecipe, format_in_task, recipe_for
from ragtune.superprompt.reading.text import clean, one_line
from ragtune.superprompt.rendering import RULE_KEYS, prompt_md, system_md
from ragtune.superprompt.stages.base import AgentStage
from ragtune.superprompt.super_prompt import SuperPrompt

KEYS = ("normalized_format_spec", "example_shape", "hard_rules")
"""Keys of ``extras["format_enforcer"]``: two texts and a list of texts."""

_FORMAT = "{format}"


class EnforcerOptions(Frozen):
    """The stage's own settings.

    Attributes:
        unknown_rules: rules for a format without a recipe, whose specification is the user's words.
        as_requested: phrase that adds the user's words, in place of ``{format}``, to a recipe.
        formats: recipes, the stricter ones first.
    """

    unknown_rules: tuple[str, ...]
    as_requested: str = Field(pattern=r"\{format\}")
    formats: tuple[FormatRecipe, ...]


class EnforcerConfig(ExtractorConfig):
    """The extractor of :data:`KEYS`."""

    options: EnforcerOptions

    @model_validator(mode="after")
    def _keys(self) -> Self:
        types = {name: key.type for name, key in self.keys.items()}
        if types != dict(zip(KEYS, ("text", "text", "list"), strict=True)):
            raise ValueError(f"extracts {types}: allowed are {', '.join(KEYS)}, the last a list")
        return self


@dataclass(frozen=True)
class Format:
    """The format of the answer: description, example, rules besides the prompt's own, and the recipe's name."""

    spec: str
    example: str
    rules: tuple[str, ...]
    recipe: str | None = None


class A5FormatEnforcer(AgentStage[Extractor, Format]):
    """Normalises the format and restates the rules. It changes neither selection nor S_CTX_MD.

    ``extras["format_enforcer"]`` has exactly :data:`KEYS`. The prompt's own deterministic rules and codes come first in
    ``hard_rules``, word for word. Without a language model a recipe of the configuration describes ``body["format"]``,
    or the format that the task asks for if the user named none. A format without a recipe stays as written.
    """

    name: ClassVar[str] = "A5_Format_Enforcer"
    writes: ClassVar = frozenset({"body", "prompt_ready"})

    def __init__(self, config: EnforcerConfig, agent: Extractor | None = None) -> None:
        super().__init__(agent)
        self.config = config
        self.options = config.options

    def ask(self, agent: Extractor, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> Format:
        parts = {
            "system": system_md(sp, config.prompt_schema),
            "prompt": prompt_md(sp, config.prompt_schema),
            "format": sp.body.get("format", ""),
            **{key: sp.body.get(key, "") for key in ("constraints", *RULE_KEYS)},
        }
        said = agent.extract(parts, meter)
        spec, example, rules = (said[key] for key in KEYS)
        return Format(str(spec), str(example), tuple(map(one_line, rules)))

    def default(self, sp: SuperPrompt, config: PipelineConfig) -> Format:
        asked = clean(sp.body.get("format", "")).strip()
        recipe = recipe_for(cut(asked, self.config.max_part_tokens), self.options.formats)
        if not asked or "format" in sp.extras.get("defaults_used", ()):
            # The user named no format in a header, but the task may ask for one.
            found = format_in_task(cut(sp.body.get("task", ""), self.config.max_part_tokens), self.options.formats)
            recipe, asked = found or (recipe, asked)
        if recipe is None:
            return Format(asked, "", self.options.unknown_rules if asked else ())
        spec = recipe.spec
        if not recipe.is_all_of(asked):
            spec = f"{spec} {self.options.as_requested.replace(_FORMAT, asked)}"
        return Format(spec, recipe.example, recipe.rules, recipe.name)

    def write(self, sp: SuperPrompt, config: PipelineConfig, answer: Format) -> None:
        before = sp.body.get("format", "")
        own = [one_line(line) for key in RULE_KEYS for line in clean(sp.body.get(key, "")).split("\n")]
        rules = list(dict.fromkeys(rule for rule in [*own, *answer.rules] if rule))
        sp.extras["format_enforcer"] = dict(zip(KEYS, (answer.spec, answer.example, rules), strict=True))
        rewritten = answer.spec not in ("", before)
        sp.extras["a5_decisions"] = self.config.log() | {
            "recipe": answer.recipe,
            "format_before": before,
            "format_rewritten": rewritten,
        }
        if rewritten:
            sp.body = sp.body | {"format": answer.spec}
