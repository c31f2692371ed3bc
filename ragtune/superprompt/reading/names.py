"""Normal form of header names, and which names are one typing mistake apart."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

_DECORATION = re.compile(r"^[\W_]*(?:\d{1,3}[.)]\s+)?[\W_]*|[\W_]+$")
_GAPS = re.compile(r"[\s_\-]+")
_DROPPED = ("Cc", "Cf", "Co", "Cn")


def normalize_name(name: str) -> str:
    """Case, width, spacing, numbering, emphasis and invisible characters taken away.

    NFKC and case folding make a full-width or capital letter the plain one; a letter of another script that only looks
    like it stays what it is, so that a homoglyph is a different name.
    """
    text = unicodedata.normalize("NFKC", name)
    visible = "".join(char if unicodedata.category(char) not in _DROPPED or char in "\t\n" else "" for char in text)
    plain = _DECORATION.sub("", unicodedata.normalize("NFKC", visible.casefold()))
    return _GAPS.sub(" ", plain).strip()


class TypoIndex:
    """Finds names at Damerau-Levenshtein distance 1 (one insertion, deletion, substitution or swap of neighbours).

    Two names are that near only if they agree after at most one deletion in each (Garbe's symmetric deletion), so a
    look-up costs the length of the name, not the number of names.

    Args:
        names: names of ASCII letters and spaces; others are left out, since a letter of another script is no typo.
        min_length: shortest name that may be mistyped by any edit.
        min_length_transposition: shortest name that may be mistyped by a swap.
    """

    def __init__(self, names: Iterable[str], min_length: int, min_length_transposition: int) -> None:
        self._min_length = min_length
        self._min_swap = min_length_transposition
        self._longest = 0
        self._by_variant: dict[str, list[str]] = {}
        for name in names:
            if _plain(name) and len(name) >= min(min_length, min_length_transposition):
                self._longest = max(self._longest, len(name))
                for variant in dict.fromkeys(_variants(name)):
                    self._by_variant.setdefault(variant, []).append(name)

    def near(self, word: str) -> list[str]:
        """The names that ``word`` may be a typo of, without repetitions, in the order that they were given."""
        if len(word) > self._longest + 1 or not _plain(word):
            return []
        found = [name for variant in dict.fromkeys(_variants(word)) for name in self._by_variant.get(variant, ())]
        return [name for name in dict.fromkeys(found) if self._is_typo(word, name)]

    def _is_typo(self, word: str, name: str) -> bool:
        if _is_swap(word, name):
            return len(name) >= self._min_swap
        return len(name) >= self._min_length and word[:1] == name[:1] and _is_edit(word, name)


def _plain(word: str) -> bool:
    return word.isascii() and word.replace(" ", "").isalpha()


def _variants(word: str) -> Iterator[str]:
    yield word
    for i in range(len(word)):
        yield word[:i] + word[i + 1 :]


def _is_swap(word: str, name: str) -> bool:
    differing = [i for i, (a, b) in enumerate(zip(word, name, strict=False)) if a != b]
    if len(word) != len(name) or len(differing) != 2 or differing[1] != differing[0] + 1:
        return False
    i, j = differing
    return word[i] == name[j] and word[j] == name[i]


def _is_edit(word: str, name: str) -> bool:
    if abs(len(word) - len(name)) > 1 or word == name:
        return False
    start = next((i for i, (a, b) in enumerate(zip(word, name, strict=False)) if a != b), min(len(word), len(name)))
    if len(word) == len(name):
        return word[start + 1 :] == name[start + 1 :]
    longer, shorter = (word, name) if len(word) > len(name) else (name, word)
    return longer[start + 1 :] == shorter[start:]
