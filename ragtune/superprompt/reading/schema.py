"""The prompt schema, and the ladder from a header to its canonical key (rule E5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
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
Found = tuple[str, str] | None
"""Key and reason, or None where a rung has no answer."""

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
    def canonical_names(self) -> dict[str, str]:
        return {normalize_name(name): key for key, title in self.keys.items() for name in (key, title)}

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
        file = files("ragtune.superprompt") / "config" / "prompt_schema.json"
        return PromptSchema.model_validate_json(file.read_text(encoding="utf-8"))


class Mapped(NamedTuple):
    """The outcome of the ladder: canonical key or None, the rung, the normalized name, and the match in words."""

    key: str | None
    step: Step
    normalized: str
    because: str


class MappingLadder:
    """normalize -> exact -> alias -> tiny typo -> bilingual -> templates -> keyword -> unknown; the first decides."""

    def __init__(self, schema: PromptSchema) -> None:
        self._schema = schema
        self._aliases = _inverted(schema.aliases)
        self._english = {**self._aliases, **schema.canonical_names}
        self._never = {normalize_name(word) for word in schema.typo.never}
        self._keywords = {normalize_name(word): key for key, words in schema.keywords.items() for word in words}
        self._rungs: dict[Step, Callable[[str], Found]] = {
            "exact": self._exact,
            "alias": self._alias,
            "typo": self._typo,
            "bilingual": self._bilingual,
            "template": self._template,
            "keyword": self._keyword,
        }

    def resolve(self, header: str, *, keywords: bool = False) -> Mapped:
        """Return the key that a header means. The keyword rung is for headings, not for sentences with a colon."""
        name = normalize_name(header)
        for step, rung in self._rungs.items():
            found = rung(name) if keywords or step != "keyword" else None
            if found is not None:
                return Mapped(found[0], step, name, found[1])
        return Mapped(None, "unknown", name, "no rung knows it")

    def _exact(self, name: str) -> Found:
        key = self._schema.canonical_names.get(name)
        return None if key is None else (key, "the key's own name")

    def _alias(self, name: str) -> Found:
        key = self._aliases.get(name)
        return None if key is None else (key, f"alias of {key}")

    def _typo(self, name: str) -> Found:
        # A word of another language is not a mistyped English word: "forma", "ton".
        if not _is_plain(name) or name in self._never or name in self._schema.bilingual_names:
            return None
        near = [known for known in self._english if self._is_near(name, known)]
        keys = {self._english[known] for known in near}
        return (keys.pop(), f"one edit from {near[0]!r}") if len(keys) == 1 else None

    def _is_near(self, word: str, name: str) -> bool:
        edit = one_edit(word, name) if _is_plain(name) else None
        if edit == "swap":
            return len(name) >= self._schema.typo.min_length_transposition
        return edit == "edit" and word[:1] == name[:1] and len(name) >= self._schema.typo.min_length

    def _bilingual(self, name: str) -> Found:
        found = self._schema.bilingual_names.get(name)
        return None if found is None else (found[0], f"language {found[1]}")

    def _template(self, name: str) -> Found:
        keys: dict[str, str] = {}
        for template in self._schema.header_templates:
            before, after = template.split("{key}")
            if len(name) > len(before + after) and name.startswith(before) and name.endswith(after):
                inner = name[len(before) : len(name) - len(after)]
                key = self._english.get(inner) or self._schema.bilingual_names.get(inner, (None, ""))[0]
                if key is not None:
                    keys.setdefault(key, f"template {template!r}")
        return next(iter(keys.items())) if len(keys) == 1 else None

    def _keyword(self, name: str) -> Found:
        found = {self._keywords[word]: f"keyword {word!r}" for word in _WORD.findall(name) if word in self._keywords}
        return next(iter(found.items())) if len(found) == 1 else None


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
