"""The prompt schema: the keys of a prompt and the names that people use for them (rule E5)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from importlib.resources import files
from typing import Self

from pydantic import Field, model_validator

from ragtune.superprompt.frozen import Frozen
from ragtune.superprompt.reading.text import normalize_name

DEFAULTS = "prompt_schema.json"

NEVER_DEFAULTED = ("task", "context")
"""The TASK/CONTEXT special rule: these two are never invented."""

Names = Mapping[str, tuple[str, ...]]


class TypoTolerance(Frozen):
    """Which names may be mistyped.

    Attributes:
        min_length: shortest name for any single edit.
        min_length_transposition: shortest name for a swap of two neighbouring letters.
        never: words that are one edit from a name and mean something else.
    """

    min_length: int = Field(ge=2)
    min_length_transposition: int = Field(ge=2)
    never: tuple[str, ...]


class HeaderRules(Frozen):
    """What may be a header.

    Attributes:
        max_characters: limit of characters of a header's name.
        max_words: limit of words of a header's name.
    """

    max_characters: int = Field(ge=1)
    max_words: int = Field(ge=1)


class Modes(Frozen):
    """Options of A0.

    Attributes:
        semantic_enabled: whether a language model maps unknown headers.
        semantic_threshold: least confidence that counts, in [0, 1].
        semantic_max_headers: limit of unknown headers for the model; further ones stay unknown.
    """

    semantic_enabled: bool
    semantic_threshold: float = Field(ge=0.0, le=1.0)
    semantic_max_headers: int = Field(ge=1)


class PromptSchema(Frozen):
    """Keys and names of a prompt's parts; see ``config/prompt_schema.json``.

    Attributes:
        version: version of the schema.
        keys: title by canonical key, in the order of display.
        must_keys: keys that ``body`` always has; those without a value get their default.
        defaults: default values of the MUST keys, except task and context.
        aliases: other English names by key.
        bilingual: names by key, for each further language.
        header_templates: phrases around a name, with ``{key}`` in its place.
        line_templates: beginnings of a line by key; the rest of the line is the value.
        keywords: words by key that identify a heading.
        typo: tolerance for mistyped names.
        headers: what may be a header.
        modes: options of A0.
    """

    version: int
    keys: Mapping[str, str]
    must_keys: tuple[str, ...]
    defaults: Mapping[str, str]
    aliases: Names
    bilingual: Mapping[str, Names]
    header_templates: tuple[str, ...]
    line_templates: Names
    keywords: Names
    typo: TypoTolerance
    headers: HeaderRules
    modes: Modes

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        tables = [self.aliases, *self.bilingual.values(), self.line_templates, self.keywords]
        used = [*self.must_keys, *self.defaults, *(key for table in tables for key in table), *NEVER_DEFAULTED]
        if strangers := sorted(set(used) - set(self.keys)):
            raise ValueError(f"{strangers[0]!r} is no canonical key: allowed are {', '.join(self.keys)}")
        if invented := [key for key in NEVER_DEFAULTED if key in self.defaults]:
            raise ValueError(f"defaults has {invented[0]!r}: task and context are never invented")
        if bare := [key for key in self.must_keys if key not in (*self.defaults, *NEVER_DEFAULTED)]:
            raise ValueError(f"must key {bare[0]!r} has no default")
        if wrong := [template for template in self.header_templates if template.count("{key}") != 1]:
            raise ValueError(f"header template {wrong[0]!r}: allowed is a phrase with one {{key}}")
        for table in tables[:-2]:
            _inverted(table)
        return self

    @cached_property
    def canonical_names(self) -> dict[str, str]:
        """Keys by the normalized names of keys and titles."""
        return {normalize_name(name): key for key, title in self.keys.items() for name in (key, title)}

    @cached_property
    def alias_names(self) -> dict[str, str]:
        """Keys by normalized alias."""
        return _inverted(self.aliases)

    @cached_property
    def bilingual_names(self) -> dict[str, tuple[str, str]]:
        """Key and language by normalized name; a name of two languages belongs to the first."""
        found: dict[str, tuple[str, str]] = {}
        for language, table in self.bilingual.items():
            for name, key in _inverted(table).items():
                found.setdefault(name, (key, language))
        return found

    @staticmethod
    @cache
    def load() -> PromptSchema:
        """Return the packaged schema."""
        text = (files("ragtune.superprompt.config") / DEFAULTS).read_text(encoding="utf-8")
        return PromptSchema.model_validate_json(text)


def _inverted(table: Names) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, names in table.items():
        for name in names:
            if found.setdefault(normalize_name(name), key) != key:
                raise ValueError(f"{name!r} names both {found[normalize_name(name)]!r} and {key!r}")
    return found
