"""The default token counter."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import IntArray

_PIECE = re.compile(r"\w{1,6}|[^\w\s]")


@cache
def _kind(character: str) -> str:
    """An ASCII character of the same kind: a part of a word, white space, or a mark."""
    return "w" if character.isalnum() or character == "_" else " " if character.isspace() else "."


_KINDS = "".join(_kind(chr(i)) for i in range(256)).encode()
"""By it a text is counted in a third of a pattern's time."""

_BY_KIND = "ragtune-by-kind"  # an encoding's handler of what is not Latin-1: it finds it faster than a pattern does
codecs.register_error(
    _BY_KIND,
    lambda found: ("".join(map(_kind, found.object[found.start : found.end])), found.end),  # type: ignore[attr-defined]
)


def count_tokens(text: str) -> int:
    r"""Number of tokens by the rule ``\w{1,6}|[^\w\s]``.

    It needs no vocabulary and comes within a quarter of a subword tokenizer. For exact figures give the corpus a
    counter of the model's own tokenizer.
    """
    kinds = f"{text} ".encode("latin-1", _BY_KIND).translate(_KINDS).replace(b"wwwwww", b".")  # a token like a mark
    return kinds.count(b".") + kinds.replace(b".", b" ").count(b"w ")


def count_each(texts: Sequence[str]) -> list[int]:
    """:func:`count_tokens` of each text: a tenth of the time where there are many."""
    parts = [text.encode("latin-1", _BY_KIND).translate(_KINDS) for text in texts]
    kinds = np.frombuffer(b" ".join((b"", *parts, b"")), np.uint8)
    begins, _, pieces = _words(kinds)
    bounds = np.cumsum([0, *(len(part) + 1 for part in parts)])
    words = np.concatenate([[0], pieces.cumsum()])[begins.searchsorted(bounds)]
    marks = np.add.reduceat(kinds == ord("."), bounds[:-1], dtype=np.int64)
    counts: list[int] = (np.diff(words) + marks).tolist()
    return counts


def token_edges(text: str) -> tuple[IntArray, IntArray]:
    """Starts and ends of all tokens, shape (tokens,) each: :func:`token_spans` in a tenth of the time."""
    kinds = np.frombuffer(f" {text} ".encode("latin-1", _BY_KIND).translate(_KINDS), np.uint8)
    begins, ends, pieces = _words(kinds)
    first = np.repeat(begins - 6 * (pieces.cumsum() - pieces), pieces) + 6 * np.arange(pieces.sum())
    last = np.minimum(first + 6, np.repeat(ends, pieces))
    marks = (kinds[1:] == ord(".")).nonzero()[0]
    return np.sort(np.r_[first, marks], kind="stable"), np.sort(np.r_[last, marks + 1], kind="stable")


def _words(kinds: NDArray[np.uint8]) -> tuple[IntArray, IntArray, IntArray]:
    """Starts, ends and tokens of the words."""
    is_word = kinds == ord("w")
    edges = (is_word[1:] != is_word[:-1]).nonzero()[0]
    return edges[::2], edges[1::2], (edges[1::2] - edges[::2] + 5) // 6


def token_spans(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of every token that :func:`count_tokens` counts; a text cut where one starts keeps their number."""
    return (piece.span() for piece in _PIECE.finditer(text))
