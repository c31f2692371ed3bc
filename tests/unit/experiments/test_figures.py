"""The picture of a run."""

from __future__ import annotations

from pathlib import Path

import matplotlib.image
import numpy as np

from experiments.evaluate.curves import Curve
from experiments.publish.figures import draw_curve


def curve(usd: float) -> Curve:
    values = np.linspace(0.25, 0.75, 3)[None, :, None].repeat(2, axis=2)
    costs = np.zeros((3, 5))
    costs[:, 2], costs[:, 4] = [0, 900, 2000], [0, usd / 2, usd]
    return Curve(["nDCG@10", "AP"], np.arange(3), costs, values, values[0], values[0])


def test_where_a_run_costs_money_quality_is_drawn_against_tokens_and_dollars_too(tmp_path: Path) -> None:
    shapes = []
    for usd in (0.0, 0.01):
        draw_curve(tmp_path / "curve.png", curve(usd), title="t")
        shapes.append(matplotlib.image.imread(tmp_path / "curve.png").shape[:2])
    (height, width), (tall, wide) = shapes
    assert (tall, wide) == (height, 3 * width)


def test_the_same_curve_is_the_same_file(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        draw_curve(tmp_path / name, curve(0.01), title="t")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
