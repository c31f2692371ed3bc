"""Text as every stage may rely on it: one kind of line end, no control characters."""

from __future__ import annotations

import re

from ragtune.llm.types import well_formed

_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")


def clean(text: str) -> str:
    r"""``text`` with every line end as ``\n`` and without control, bidirectional override and byte order marks.

    What ``str.splitlines`` takes for a line end, a person and a model may take for one as well; after this there is
    only one kind. Joiners stay: Persian and emoji need them.
    """
    return _CONTROLS.sub("", _LINE_ENDS.sub("\n", well_formed(text)))


def one_line(text: str) -> str:
    """``text`` on a single line, for labels: runs of white space become one space."""
    return " ".join(clean(text).split())
