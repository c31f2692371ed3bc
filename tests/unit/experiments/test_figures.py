"""The picture of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib.image

from experiments.evaluate.summary import Summary
from experiments.publish.figures import Columns, draw_curve


def curve(usd: float) -> Columns:
    values = {f"nDCG@10{end}": [0.25, 0.5, 0.75] for end in ("", "_low", "_high")}
    return {"documents": [0, 1, 2], "tokens": [0.0, 900.0, 2000.0], "usd": [0.0, usd / 2, usd], **values}


def test_where_a_run_costs_money_quality_is_drawn_against_tokens_and_dollars_too(
    tmp_path: Path, make_summary: Callable[..., Summary]
) -> None:
    shapes = []
    for usd in (0.0, 0.01):
        draw_curve(tmp_path / "curve.png", curve(usd), make_summary())
        shapes.append(matplotlib.image.imread(tmp_path / "curve.png").shape[:2])
    (height, width), (tall, wide) = shapes
    assert (tall, wide) == (height, 3 * width)
