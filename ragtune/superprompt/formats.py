"""Common output formats, normalised without a language model."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from ragtune.superprompt.cleaning import one_line


class FormatRecipe(BaseModel):
    """One format.

    Attributes:
        name: name of the format.
        words: words and phrases that ask for the format.
        spec: description of the format in a sentence.
        example: example of the format; may be empty.
        rules: rules that an answer in the format must obey.
    """

    name: str
    words: tuple[str, ...] = Field(min_length=1)
    spec: str = Field(min_length=1)
    example: str
    rules: tuple[str, ...]

    model_config = ConfigDict(frozen=True, extra="forbid")

    def is_asked_for(self, text: str) -> bool:
        """Whether one of the words stands in the text, whole, whatever its case, spacing and hyphens."""
        return any(re.search(rf"\b{_phrase(word)}\b", text, re.IGNORECASE) for word in self.words)

    def is_all_of(self, text: str) -> bool:
        """Whether the text says nothing but one of the words, with or without an article before and a stop behind."""
        bare = _bare(text)
        return any(re.fullmatch(_phrase(_bare(word)), bare, re.IGNORECASE) for word in (*self.words, self.spec))


def recipe_for(text: str, recipes: Sequence[FormatRecipe]) -> FormatRecipe | None:
    """The first of the recipes that the text asks for: the stricter formats come first in the configuration."""
    line = one_line(text)
    return next((recipe for recipe in recipes if recipe.is_asked_for(line)), None)


def _phrase(words: str) -> str:
    return r"[\s\-]+".join(map(re.escape, words.replace("-", " ").split()))


def _bare(text: str) -> str:
    return re.sub(r"^(?:an?|the|ein|eine|einen)\s+", "", one_line(text).rstrip(" ."), flags=re.IGNORECASE)
