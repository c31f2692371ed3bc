"""Which chunks say nothing, and which say the same as another."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ragtune.core.tokens import count_tokens
from ragtune.data.text import terms

_WORDS = re.compile(r"\w+")


def is_trivial(text: str, min_word_tokens: int) -> bool:
    """Whether a text has fewer tokens of words than that: empty, rules and dots, a bare heading."""
    return count_tokens(" ".join(_WORDS.findall(text))) < min_word_tokens


def duplicates(texts: Mapping[str, str], threshold: float) -> dict[str, str]:
    """Ids of texts that repeat an earlier text, each with the id of the first text that it repeats.

    A text repeats another if it is the same but for case and spacing, or if the Jaccard index of their sets of terms is
    at least ``threshold``; texts without terms are only compared for sameness.

    Args:
        texts: texts by id, in order.
        threshold: least Jaccard index of a repetition, in (0, 1].
    """
    kept: dict[str, tuple[str, frozenset[str]]] = {}
    found: dict[str, str] = {}
    for text_id, text in texts.items():
        plain, own = " ".join(text.casefold().split()), frozenset(terms(text))
        original = next(
            (other for other, (seen, held) in kept.items() if plain == seen or _near(own, held, threshold)), None
        )
        if original is None:
            kept[text_id] = plain, own
        else:
            found[text_id] = original
    return found


def _near(one: frozenset[str], other: frozenset[str], threshold: float) -> bool:
    return bool(one) and len(one & other) >= threshold * len(one | other)
