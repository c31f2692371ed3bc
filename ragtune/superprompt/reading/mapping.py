"""The mapping ladder: which canonical key a header means (rule E5)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from ragtune.superprompt.reading.names import TypoIndex, normalize_name
from ragtune.superprompt.reading.schema import PromptSchema

Step = Literal["exact", "alias", "typo", "bilingual", "template", "keyword", "semantic", "unknown"]

_WORD = re.compile(r"\w+")


class Mapped(NamedTuple):
    """The outcome of the ladder for one header.

    Attributes:
        key: canonical key, None if the header is unknown.
        step: the rung that decided.
        normalized: the name that all rungs but the first read.
        because: what matched, in words, e.g. the name that a typo was taken for.
    """

    key: str | None
    step: Step
    normalized: str
    because: str


class MappingLadder:
    """normalize -> exact -> alias -> tiny typo -> bilingual -> templates -> keyword -> unknown.

    The first rung that knows the name decides. A rung on which two keys match says nothing. Pure: the same header and
    schema always give the same answer.

    Args:
        schema: the keys and their names.
    """

    def __init__(self, schema: PromptSchema) -> None:
        self._schema = schema
        english = {**schema.alias_names, **schema.canonical_names}
        self._english = english
        self._typos = TypoIndex(english, schema.typo.min_length, schema.typo.min_length_transposition)
        self._never = {normalize_name(word) for word in schema.typo.never}
        self._templates = [_pattern(template) for template in schema.header_templates]
        self._keywords = {normalize_name(word): key for key, words in schema.keywords.items() for word in words}

    def resolve(self, header: str, *, keywords: bool = True) -> Mapped:
        """The key that ``header`` means.

        Args:
            header: name of the header as it is written, without the marks that make it a header.
            keywords: whether the keyword rung counts; it is for headings, not for ``Key: value`` lines, where a
                sentence with a colon would be torn apart.
        """
        name = normalize_name(header)
        rungs: list[tuple[Step, Callable[[str], tuple[str, str] | None]]] = [
            ("exact", self._exact),
            ("alias", self._alias),
            ("typo", self._typo),
            ("bilingual", self._bilingual),
            ("template", self._template),
        ]
        if keywords:
            rungs.append(("keyword", self._keyword))
        for step, rung in rungs:
            found = rung(name)
            if found is not None:
                return Mapped(found[0], step, name, found[1])
        return Mapped(None, "unknown", name, "no rung knows it")

    def _exact(self, name: str) -> tuple[str, str] | None:
        key = self._schema.canonical_names.get(name)
        return None if key is None else (key, "the key's own name")

    def _alias(self, name: str) -> tuple[str, str] | None:
        key = self._schema.alias_names.get(name)
        return None if key is None else (key, f"alias of {key}")

    def _typo(self, name: str) -> tuple[str, str] | None:
        # A word of another language is a word, not a mistyped English one: "forma", "ton".
        if name in self._never or name in self._schema.bilingual_names:
            return None
        near = self._typos.near(name)
        keys = list(dict.fromkeys(self._english[candidate] for candidate in near))
        return (keys[0], f"one edit from {near[0]!r}") if len(keys) == 1 else None

    def _bilingual(self, name: str) -> tuple[str, str] | None:
        found = self._schema.bilingual_names.get(name)
        return None if found is None else (found[0], f"language {found[1]}")

    def _template(self, name: str) -> tuple[str, str] | None:
        keys: dict[str, str] = {}
        for template, pattern in zip(self._schema.header_templates, self._templates, strict=True):
            match = pattern.fullmatch(name)
            key = self._known(match["key"]) if match else None
            if key is not None:
                keys.setdefault(key, template)
        return (
            next(((key, f"template {template!r}") for key, template in keys.items()), None) if len(keys) == 1 else None
        )

    def _known(self, name: str) -> str | None:
        bilingual = self._schema.bilingual_names.get(name)
        return self._english.get(name) or (bilingual[0] if bilingual else None)

    def _keyword(self, name: str) -> tuple[str, str] | None:
        found = {self._keywords[word]: word for word in _WORD.findall(name) if word in self._keywords}
        return next(((key, f"keyword {word!r}") for key, word in found.items()), None) if len(found) == 1 else None


def _pattern(template: str) -> re.Pattern[str]:
    before, after = template.split("{key}")
    return re.compile(f"{re.escape(before)}(?P<key>.+){re.escape(after)}", re.DOTALL)
