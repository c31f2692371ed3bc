"""The prompt schema, and the ladder from a header to its canonical key (rule E5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, cached_property
from importlib.resources import files
from typing import Literal, NamedTuple, Self

from pydantic import Field, model_validator

from ragtune.superprompt.frozen import Frozen
from ragtune.superprompt.reading.text import normalize_name

NEVER_DEFAULTED = ("task", "context")
"""The TASK/CONTEXT special rule: these two are never invented."""

Names = Mapping[str, tuple[str, ...]]
Step = Literal["exact", "alias", "typo", "bilingual", "template", "keyword", "semantic", "unknown"]

_WORD = re.compile(r"\w+")


class TypoTolerance(Frozen):
    """Which names may be mistyped."""

    min_length: int = Field(ge=2)
    min_length_transposition: int = Field(ge=2)
    never: tuple[str, ...]


class HeaderRules(Frozen):
    """What may be a header."""

    max_characters: int = Field(ge=1)
    max_words: int = Field(ge=1)


class Modes(Frozen):
    """Options of A0."""

    semantic_enabled: bool
    semantic_threshold: float = Field(ge=0.0, le=1.0)
    semantic_max_headers: int = Field(ge=1)


class Mapped(NamedTuple):
    """The outcome of the ladder: canonical key or None, the rung, the normalized name, and the match in words."""

    key: str | None
    step: Step
    normalized: str
    because: str


class PromptSchema(Frozen):
    """Keys and names of a prompt's parts; see ``config/prompt_schema.json``."""

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
    def names(self) -> dict[str, Mapped]:
        """What each normalized name means: the key's own, then aliases, then names in other languages."""
        own = {key: (key, title) for key, title in self.keys.items()}
        tables: list[tuple[Step, str, Names]] = [("exact", "the key's own name", own)]
        tables.append(("alias", "alias", self.aliases))
        tables += [("bilingual", f"language {language}", table) for language, table in self.bilingual.items()]
        found: dict[str, Mapped] = {}
        for step, because, table in tables:
            for name, key in _inverted(table).items():
                found.setdefault(name, Mapped(key, step, name, because))
        return found

    def resolve(self, header: str, *, keywords: bool = False) -> Mapped:
        """Return the key that a header means. The keyword rung is for headings, not for sentences with a colon.

        The ladder: normalize -> exact -> alias -> tiny typo -> bilingual -> templates -> keyword -> unknown; the first
        rung decides.
        """
        name = normalize_name(header)
        if name in self.names:
            return self.names[name]
        found: dict[Step, dict[str, str]] = {
            "typo": self._typos(name),
            "template": self._templates(name),
            "keyword": self._known_words(name) if keywords else {},
        }
        for step, keys in found.items():
            if len(keys) == 1:
                [(key, because)] = keys.items()
                return Mapped(key, step, name, because)
        return Mapped(None, "unknown", name, "no rung knows it")

    def _typos(self, name: str) -> dict[str, str]:
        if not _is_plain(name) or name in map(normalize_name, self.typo.never):
            return {}
        return {
            mapped.key: f"one edit from {known!r}"
            for known, mapped in self.names.items()
            if mapped.key and mapped.step != "bilingual" and self._is_near(name, known)
        }

    def _is_near(self, word: str, name: str) -> bool:
        edit = one_edit(word, name) if _is_plain(name) else None
        if edit == "swap":
            return len(name) >= self.typo.min_length_transposition
        return edit == "edit" and word[:1] == name[:1] and len(name) >= self.typo.min_length

    def _templates(self, name: str) -> dict[str, str]:
        keys: dict[str, str] = {}
        for template in self.header_templates:
            before, after = template.split("{key}")
            if len(name) > len(before + after) and name.startswith(before) and name.endswith(after):
                mapped = self.names.get(name[len(before) : len(name) - len(after)])
                if mapped is not None and mapped.key:
                    keys.setdefault(mapped.key, f"template {template!r}")
        return keys

    def _known_words(self, name: str) -> dict[str, str]:
        known = {normalize_name(word): key for key, words in self.keywords.items() for word in words}
        return {known[word]: f"keyword {word!r}" for word in _WORD.findall(name) if word in known}

    @staticmethod
    @cache
    def load() -> PromptSchema:
        file = files("ragtune.superprompt") / "config" / "prompt_schema.json"
        return PromptSchema.model_validate_json(file.read_text(encoding="utf-8"))


def one_edit(word: str, name: str) -> Literal["swap", "edit"] | None:
    """Return how a word is one edit from a name (Damerau-Levenshtein distance 1); None if it is not."""
    if abs(len(word) - len(name)) > 1 or word == name:
        return None
    start = next((i for i, (a, b) in enumerate(zip(word, name, strict=False)) if a != b), min(len(word), len(name)))
    if len(word) != len(name):
        longer, shorter = (word, name) if len(word) > len(name) else (name, word)
        return "edit" if longer[start + 1 :] == shorter[start:] else None
    if word[start : start + 2] == name[start : start + 2][::-1] and word[start + 2 :] == name[start + 2 :]:
        return "swap"
    return "edit" if word[start + 1 :] == name[start + 1 :] else None


def _is_plain(name: str) -> bool:
    """Whether a name has ASCII letters and spaces only: a letter of another script is no typo."""
    return name.isascii() and name.replace(" ", "").isalpha()


def _inverted(table: Names) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, names in table.items():
        for name in names:
            if found.setdefault(normalize_name(name), key) != key:
                raise ValueError(f"{name!r} names both {found[normalize_name(name)]!r} and {key!r}")
    return found
