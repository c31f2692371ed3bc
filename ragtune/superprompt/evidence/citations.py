"""Citations of sources that there are, and no others."""

from __future__ import annotations

import re

_BETWEEN = r"\s*(?:[,;&\u2013-]|and|und)\s*"
_CITATION = re.compile(
    rf"`[^`\n]*`|\\?[\[\u3010]\s*(?:(?:source|attachment)\s+)?(\d+(?:{_BETWEEN}\d+)*)\s*\\?[\]\u3011](?!\()",
    re.IGNORECASE,
)
"""Code, which cites nothing, or a citation in any of the ways in which models write them.

``[n](url)`` is a Markdown link and ``[^n]`` a footnote: neither cites an attachment.
"""

_DEFINITION = re.compile(r"\s{0,3}(?:[-*+]\s+)?\[\d+\]:\s")
"""``[n]: url`` gives ``[n]`` another meaning than attachment n, whatever n is."""

_NUMBER = re.compile(r"\d+")


def without_false_citations(text: str, sources: int) -> tuple[str, list[str]]:
    """``text`` without citations ``[n]`` of sources outside 1 to ``sources``, and the lines that were rejected.

    A line all of whose citations are false rests on nothing and goes; of one that has others too, only the false ones
    go (``[1, 9]`` becomes ``[1]``). Lines without a citation stay; links ``[n](url)`` and footnotes ``[^n]`` are none,
    so they stay as they are and make no line true. A line ``[n]: url`` goes: it would make a link of every ``[n]``.
    """
    kept: list[str] = []
    rejected: list[str] = []
    for line in text.split("\n"):
        cited = [int(number) for match in _CITATION.finditer(line) for number in _numbers(match)]
        if _DEFINITION.match(line) or (cited and not any(1 <= number <= sources for number in cited)):
            rejected.append(line)
        else:
            kept.append(_CITATION.sub(lambda match: _checked(match, sources), line).rstrip())
    return "\n".join(kept), rejected


def _checked(match: re.Match[str], sources: int) -> str:
    numbers = _numbers(match)
    true = [number for number in numbers if 1 <= int(number) <= sources]
    return match[0] if len(true) == len(numbers) else f"[{', '.join(true)}]" if true else ""


def _numbers(match: re.Match[str]) -> list[str]:
    return _NUMBER.findall(match[1] or "")
