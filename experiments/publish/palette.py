"""Colours, dashes and markers of every figure: no two policies differ by colour alone.

The colours are Okabe and Ito's ("Color universal design", 2008), which people of every colour vision tell apart. Their
yellow is left out, as it is too light for a line on white.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

BLACK, BLUE, GREEN, SKY = "#000000", "#0072B2", "#009E73", "#56B4E9"
VERMILION, PURPLE, ORANGE, GREY = "#D55E00", "#CC79A7", "#E69F00", "#767676"

INKS = {
    "incumbent": (BLACK,),
    "ours": (BLUE, GREEN, SKY),
    "peer": (VERMILION, PURPLE, ORANGE),
    "ceiling": (GREY,),
}
DASHES: dict[str, tuple[Any, ...]] = {
    "incumbent": ((0, (4, 2)),),
    "ours": ("-", (0, (7, 2)), (0, (7, 2, 2, 2)), (0, (2, 1.5))),
    "peer": ((0, (5, 1.5)), (0, (2, 1.5)), (0, (8, 2, 2, 2)), "-"),
    "ceiling": ((0, (1, 2)), (0, (3, 3))),
}
MARKERS = {"incumbent": "s", "ours": "oDXP*", "peer": "^v<>ph", "ceiling": "+x1"}
"""As Matplotlib calls them."""


@dataclass(frozen=True)
class Style:
    """Colour, dash and marker of one line."""

    ink: str
    dash: Any
    marker: str


def styles_of(kinds: Sequence[str]) -> list[Style]:
    """Styles of lines of the given kinds, in their order.

    The cycles of colours, dashes and markers of a kind differ in length, so that 60 lines of ours stay distinct.

    Args:
        kinds: of each line; a key of :data:`INKS`.
    """
    found = []
    for i, kind in enumerate(kinds):
        turn = sum(other == kind for other in kinds[:i])
        inks, dashes, markers = INKS[kind], DASHES[kind], MARKERS[kind]
        found.append(Style(inks[turn % len(inks)], dashes[turn % len(dashes)], markers[turn % len(markers)]))
    return found
