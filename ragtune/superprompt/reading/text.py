"""Text that every stage may rely on: one kind of line end, no control characters, one form of a name."""

from __future__ import annotations

import re
import unicodedata

from ragtune.llm.types import well_formed

_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")
_DECORATION = re.compile(r"^[\W_]*(?:\d{1,3}[.)]\s+)?[\W_]*|[\W_]+$")
_GAPS = re.compile(r"[\s_\-]+")
_INVISIBLE = ("Cc", "Cf", "Co", "Cn")


def clean(text: str) -> str:
    r"""Return ``text`` with ``\n`` as the only line end and without control, override and byte order marks.

    Joiners stay, because Persian and emoji need them.
    """
    return _CONTROLS.sub("", _LINE_ENDS.sub("\n", well_formed(text)))


def one_line(text: str) -> str:
    """Return ``text`` on one line, for labels: runs of white space become one space."""
    return " ".join(clean(text).split())


def normalize_name(name: str) -> str:
    """Return a header's name without case, width, numbering, emphasis, extra spacing and invisible characters.

    A full-width or capital letter becomes the plain one. A letter of another script that only looks the same stays, so
    a homoglyph is a different name.
    """
    plain = _DECORATION.sub("", unicodedata.normalize("NFKC", as_seen(name).casefold()))
    return _GAPS.sub(" ", plain).strip()


def as_seen(text: str) -> str:
    """Return ``text`` in compatibility form and without invisible characters."""
    normal = unicodedata.normalize("NFKC", text)
    return "".join(char for char in normal if char in "\t\n" or unicodedata.category(char) not in _INVISIBLE)
