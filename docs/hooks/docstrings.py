"""Docstrings as Markdown: Sphinx roles become code, and a rule's number becomes a link to the rule."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|func|meth|attr|data|mod):`~?([\w.]+)`")
RULES = re.compile(r"\b(rules? )([A-Z]\d+(?:(?:, | and )[A-Z]\d+)*)")


class Docstrings(griffe.Extension):
    """Rewrites the text of every docstring once it is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe for every module, class, function and attribute."""
        if obj.docstring is None:
            return
        text = ROLE.sub(lambda found: f"`{found[1].rpartition('.')[2]}`", obj.docstring.value)
        text = RULES.sub(lambda found: found[1] + re.sub(r"[A-Z]\d+", r"[\g<0>][\g<0>]", found[2]), text)
        obj.docstring.value = text
