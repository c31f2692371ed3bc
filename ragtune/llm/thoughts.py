"""What a reasoning model says beside its thoughts."""

from __future__ import annotations

import re

_NAME = r"[\w:-]{0,20}?(?:think|thought|reason|reflect|scratchpad)[\w-]{0,20}"
_OPENING = re.compile(
    rf"<{_NAME}\s{{0,9}}>|\[THINK\]|◁think▷|<\|channel\|>(?:analysis|commentary)\b[^<]{{0,60}}<\|message\|>",
    re.IGNORECASE,
)
_CLOSING = re.compile(rf"</{_NAME}\s{{0,9}}>|\[/THINK\]|◁/think▷|<\|channel\|>final<\|message\|>", re.IGNORECASE)


def without_thoughts(text: str) -> str:
    """Return what follows the last closing tag of thoughts, or the whole text where there is no such tag.

    Some chat templates swallow the opening tag, so everything before the last closing tag counts as thoughts. Thoughts
    that are opened and never closed reach to the end. Where nothing follows and every tag has its partner, the text
    before the thoughts is the answer.

    >>> without_thoughts('maybe {"best": 1}?</think>{"best": 2}')
    '{"best": 2}'
    """
    closings = list(_CLOSING.finditer(text))
    openings = list(_OPENING.finditer(text))
    start = closings[-1].end() if closings else 0
    end = next((tag.start() for tag in openings if tag.start() >= start), len(text))
    if closings and openings and len(openings) == len(closings) and not text[start:].strip():
        start, end = 0, openings[0].start()
    return text[start:end]
