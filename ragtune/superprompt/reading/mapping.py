"""The mapping ladder: from a header to its canonical key (rule E5)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from ragtune.superprompt.reading.text import normalize_name
from ragtune.superprompt.reading.schema import PromptSchema

Step = Literal["exact", "alias", "typo", "bilingual", "template", "keyword", "semantic", "unknown"]
Found = tuple[str, str] | None
"""Key and reason, or None where a rung has no answer."""

_WORD = re.compile(r"\w+")


class Mapped(NamedTuple):
    """The outcome of the ladder: canonical key or None, the rung, the normalized name, and the match in words."""

    key: str | None
    step: Step
    normalized: str
    because: str


class MappingLadder:
    """normalize -> exact -> alias -> tiny typo -> bilingual -> templates -> keyword -> unknown.

    The first rung that knows the name decides. A rung on which two keys match has no answer.
    """

    def __init__(self, schema: PromptSchema) -> None:
        self._schema = schema
        self._english = {**schema.alias_names, **schema.canonical_names}
        self._never = {normalize_name(word) for word in schema.typo.never}
        self._templates = [_pattern(template) for template in schema.header_templates]
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
        """Return the key that a header means.

        The keyword rung is for headings. It would split a ``Key: value`` line that is a sentence with a colon.
        """
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
        key = self._schema.alias_names.get(name)
        return None if key is None else (key, f"alias of {key}")

    def _typo(self, name: str) -> Found:
        # A word of another language is not a mistyped English word: "forma", "ton".
        if not _is_plain(name) or name in self._never or name in self._schema.bilingual_names:
            return None
        near = [known for known in self._english if self._is_near(name, known)]
        keys = {self._english[known] for known in near}
        return (keys.pop(), f"one edit from {near[0]!r}") if len(keys) == 1 else None

    def _is_near(self, word: str, name: str) -> bool:
        """Whether a word is a typing mistake of a name that is long enough."""
        edit = one_edit(word, name) if _is_plain(name) else None
        if edit == "swap":
            return len(name) >= self._schema.typo.min_length_transposition
        return edit == "edit" and word[:1] == name[:1] and len(name) >= self._schema.typo.min_length

    def _bilingual(self, name: str) -> Found:
        found = self._schema.bilingual_names.get(name)
        return None if found is None else (found[0], f"language {found[1]}")

    def _template(self, name: str) -> Found:
        keys: dict[str, str] = {}
        for template, pattern in zip(self._schema.header_templates, self._templates, strict=True):
            match = pattern.fullmatch(name)
            key = self._known(match["key"]) if match else None
            if key is not None:
                keys.setdefault(key, f"template {template!r}")
        return next(iter(keys.items())) if len(keys) == 1 else None

    def _known(self, name: str) -> str | None:
        bilingual = self._schema.bilingual_names.get(name)
        return self._english.get(name) or (bilingual[0] if bilingual else None)

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


def _pattern(template: str) -> re.Pattern[str]:
    before, after = template.split("{key}")
    return re.compile(f"{re.escape(before)}(?P<key>.+){re.escape(after)}", re.DOTALL)
