"""The figure of the report: quality against cost, in every unit that is known, as Plotly draws it."""

from __future__ import annotations

from collections.abc import Collection as Names
from typing import Any

import numpy as np

from experiments.evaluate.curves import FloatArray
from experiments.report.figures import styles
from experiments.report.study import Collection, Line, Study, file_stem
from ragtune.core.units import UNITS

_CONFIG = {"displaylogo": False, "displayModeBar": False, "responsive": True}


def plot(study: Study, collection: Collection, shown: Names[str]) -> str:
    """The figure of a collection, as a division of a page that has Plotly; the legend shows the other policies."""
    from plotly import graph_objects  # type: ignore[import-untyped]
    from plotly.io import to_html  # type: ignore[import-untyped]

    figure = graph_objects.Figure()
    lines = {policy.name: collection.curves[policy.name] for policy in study.policies}
    look = styles(study)
    for policy in study.policies:
        line, style = lines[policy.name], look[policy.name]
        shared = {"x": _rounded(line.spent), "visible": True if policy.name in shown else "legendonly"}
        shared |= {"legendgroup": policy.name, "name": policy.label, "line_shape": "hv" if line.steps else "linear"}
        hidden = {"mode": "lines", "line_width": 0, "showlegend": False, "hoverinfo": "skip"}
        figure.add_scatter(y=_rounded(line.low[:, 0]), **shared, **hidden)
        figure.add_scatter(y=_rounded(line.high[:, 0]), fill="tonexty", fillcolor=f"{style.ink}1f", **shared, **hidden)
        figure.add_scatter(
            y=_rounded(line.mean[:, 0]),
            mode="lines+markers" if len(line.spent) <= 12 else "lines",
            line_color=style.ink,
            line_dash="solid" if style.dash == "-" else ",".join(f"{2 * length:g}px" for length in style.dash[1]),
            customdata=[f"at most {allowed:g} {study.noun}" for allowed in line.allowed],
            hovertemplate="%{customdata}<br>%{x:.4g}: %{y:.3f}",
            **shared,
        )
    levels = [("dot", collection.target[0], f"full {collection.target[0]:.3f}")]
    if collection.start is not None:
        reference = study.by_name[study.reference].label
        levels.append(("dashdot", collection.start[0], f"{reference} at 0 {study.noun}: {collection.start[0]:.3f}"))
    for dash, height, text in levels:
        figure.add_hline(float(height), line_dash=dash, line_width=1, annotation_text=text)
    figure.update_layout(
        template="simple_white",
        margin={"l": 55, "r": 10, "t": 50, "b": 45},
        height=480,
        hovermode="closest",
        yaxis={"title": f"mean {study.measures[0]}", "showgrid": True},
        xaxis={"title": f"{study.noun} a query, mean", "showgrid": True},
        legend={"orientation": "h", "yanchor": "top", "y": -0.18, "x": 0},
        updatemenus=[_units(study, lines), _scales()],
    )
    name = f"curves-{file_stem(collection.name)}"  # Plotly's own name is random
    return str(to_html(figure, config=_CONFIG, full_html=False, include_plotlyjs=False, div_id=name))


def _units(study: Study, lines: dict[str, Line]) -> dict[str, Any]:
    """The menu of units: each moves all curves to its own costs. The study's unit is the first."""
    known = [(i, unit) for i, unit in enumerate(UNITS) if any(line.costs[:, i].any() for line in lines.values())]
    known.sort(key=lambda pair: pair[1] is not study.unit)
    buttons = []
    for i, unit in known:
        costs = {"x": [_rounded(line.costs[:, i]) for line in lines.values() for _ in range(3)]}
        args = [costs, {"xaxis.title.text": f"{unit.noun} a query, mean"}]
        buttons.append({"label": f"cost in {unit.noun}", "method": "update", "args": args})
    return {"buttons": buttons, "x": 0, "xanchor": "left", "y": 1.13, "yanchor": "top"}


def _scales() -> dict[str, Any]:
    buttons = [{"label": scale, "method": "relayout", "args": ["xaxis.type", scale]} for scale in ("linear", "log")]
    return {"buttons": buttons, "x": 1, "xanchor": "right", "y": 1.13, "yanchor": "top"}


def _rounded(values: FloatArray) -> list[float]:
    return [float(f"{value:.5g}") for value in np.asarray(values).tolist()]
