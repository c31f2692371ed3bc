"""Text for places where Streamlit reads Markdown."""

from __future__ import annotations

import re

_MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&@/])")


def plain(text: str) -> str:
    """``text`` on one line with every mark of Markdown escaped.

    Messages quote what people and documents say: nothing of it may become a picture that the browser would fetch.
    """
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def title_of(name: str) -> str:
    """A stage's name as a label."""
    return name.replace("_", " ")
