"""Shortens the texts of a table's column, so that they still differ where they differed."""

from __future__ import annotations

import os
from collections.abc import Sequence

_LEAST = 8
"""Characters to which a text may be shortened, the mark included."""


def shortened(texts: Sequence[str], room: int) -> list[str]:
    """Return the texts, each with at most ``room`` characters: ``…`` stands for what was left out.

    The folder that all paths share goes first. What is longer still keeps the characters around the first and the last
    difference from the other texts. Texts that would become equal keep their full length.

    Args:
        texts: the cells of a column.
        room: characters there are; fewer than 8 count as 8.
    """
    room = max(room, _LEAST)
    if max(map(len, texts), default=0) <= room:
        return list(texts)
    folder = _common([text for text in texts if text]).rpartition("/")[0]
    found = [f"…{text[len(folder) :]}" if folder and text else text for text in texts]
    if max(map(len, found)) > room:
        start = len(_common(found))
        found = [text if len(text) <= room else _around(text, start, room) for text in found]
    return found if len(set(found)) == len(set(texts)) else list(texts)


def _common(texts: Sequence[str]) -> str:
    """The characters that all texts begin with."""
    return os.path.commonprefix(list(texts))  # noqa: RUF071 - characters are meant, not parts of a path


def _around(text: str, start: int, room: int) -> str:
    """``room`` characters of a text: from its first difference on where there are as many, else its end."""
    start = max(0, min(start, len(text) - room + 1))
    cut = text[start : start + room - 1] if start else text[: room - 1]
    return f"…{cut}" if start else f"{cut}…"
