"""The files of a study: its tables, and the interactive report, one page with Plotly inside that requests nothing."""

from __future__ import annotations

import re
from collections.abc import Collection as Cells
from pathlib import Path
from typing import Any

import numpy as np

from experiments.evaluate.curves import FloatArray
from experiments.publish.figures import styles_of
from experiments.publish.files import write_text
from experiments.report.claims import claims_page, held
from experiments.report.families import choice_page, families_page, families_table
from experiments.report.latex import latex
from experiments.report.markdown import Table, described, markdown, tables_of
from experiments.report.recommendation import Recommendation, recommendation
from experiments.report.study import Line, Study, StudyCollection, file_stem
from experiments.report.tables import cells_table, curves_table, per_query_table, policies_table
from ragtune.core.units import UNITS as ALL

PAGE = Path(__file__).with_name("page.html")
STYLE = Path(__file__).with_name("page.css")


def html(study: Study, cells: Any, policies: Any, advice: Recommendation) -> str:
    """The page as HTML, from a study and its tables of cells and policies."""
    from jinja2 import Environment
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

    environment = Environment(autoescape=True)
    environment.filters["marked"] = _marked
    template = environment.from_string(PAGE.read_text(encoding="utf-8"))
    return template.render(
        study=study,
        advice=advice,
        notes=[note.replace("`", "") for note in study.notes],
        style=STYLE.read_text(encoding="utf-8"),
        plotly=get_plotlyjs(),
        collections=[_collection(study, collection, cells, policies, advice) for collection in study.collections],
    )


def _marked(cell: str) -> Any:
    """A cell of a Markdown table as HTML: its bold and its italic text are, and nothing else."""
    from markupsafe import Markup, escape

    bold = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", str(escape(cell)))
    return Markup(re.sub(r"^\*(.+)\*$", r"<i>\1</i>", bold))  # noqa: S704 (escaped above)


def _collection(study: Study, collection: StudyCollection, cells: Any, policies: Any, advice: Recommendation) -> Any:
    first, *others = tables_of(study, collection, cells, policies)
    ours = next((policy.name for policy in study.policies if policy.kind == "ours"), "")
    return {
        "name": collection.name,
        "described": described(study, collection),
        "plot": _plot(study, collection, {study.reference, advice.policy, ours}),
        "first": first,
        "front": _front(study, cells[cells["on_front"] & (cells["collection"] == collection.name)]),
        "others": others,
    }


def _plot(study: Study, collection: StudyCollection, shown: Cells[str]) -> str:
    """The figure of a collection, as a division of a page that has Plotly; the legend shows the other policies."""
    from plotly import graph_objects  # type: ignore[import-untyped]
    from plotly.io import to_html  # type: ignore[import-untyped]

    config = {"displaylogo": False, "displayModeBar": False, "responsive": True}
    figure = graph_objects.Figure()
    lines = {policy.name: collection.curves[policy.name] for policy in study.policies}
    styles = styles_of([policy.kind for policy in study.policies])
    for policy, style in zip(study.policies, styles, strict=True):
        line = lines[policy.name]
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
    scales = [{"label": scale, "method": "relayout", "args": ["xaxis.type", scale]} for scale in ("linear", "log")]
    figure.update_layout(
        template="simple_white",
        margin={"l": 55, "r": 10, "t": 50, "b": 45},
        height=480,
        hovermode="closest",
        yaxis={"title": f"mean {study.measures[0]}", "showgrid": True},
        xaxis={"title": f"{study.noun} a query, mean", "showgrid": True},
        legend={"orientation": "h", "yanchor": "top", "y": -0.18, "x": 0},
        updatemenus=[
            _units(study, lines),
            {"buttons": scales, "x": 1, "xanchor": "right", "y": 1.13, "yanchor": "top"},
        ],
    )
    name = f"curves-{file_stem(collection.name)}"  # Plotly's own name is random
    return str(to_html(figure, config=config, full_html=False, include_plotlyjs=False, div_id=name))


def _units(study: Study, lines: dict[str, Line]) -> dict[str, Any]:
    """The menu of units: each moves all curves to its own costs. The study's unit is the first."""
    known = [(i, unit) for i, unit in enumerate(ALL) if any(line.costs[:, i].any() for line in lines.values())]
    known.sort(key=lambda pair: pair[1] is not study.unit)
    buttons = []
    for i, unit in known:
        costs = {"x": [_rounded(line.costs[:, i]) for line in lines.values() for _ in range(3)]}
        args = [costs, {"xaxis.title.text": f"{unit.noun} a query, mean"}]
        buttons.append({"label": f"cost in {unit.noun}", "method": "update", "args": args})
    return {"buttons": buttons, "x": 0, "xanchor": "left", "y": 1.13, "yanchor": "top"}


def _rounded(values: FloatArray) -> list[float]:
    return [float(f"{value:.5g}") for value in np.asarray(values).tolist()]


def _front(study: Study, cells: Any) -> Table:
    spent, headline = f"{study.unit.name}_mean", study.measures[0]
    rows = []
    for _, cell in cells.sort_values(spent).iterrows():
        label = f"{cell['label']}, {cell['budget']} {study.noun}" if study.is_grid else cell["label"]
        rows.append([label, study.unit.number.format(cell[spent]), f"{cell[headline]:.3f}"])
    title = "What is worth its cost: no other policy and budget beats these in both cost and quality (Pareto front)"
    return Table(title, ["policy", f"{study.noun} a query", headline], rows)


def write_study(study: Study, folder: Path, *, report: bool) -> None:
    """Write the tables, Markdown, claims and report."""
    import pandas as pd

    folder.mkdir(parents=True, exist_ok=True)
    cells, policies = cells_table(study), policies_table(study)
    name = "frontier" if study.is_grid else "compare"
    cells.to_parquet(folder / f"{name}.parquet", index=False)
    kept = _write_csv(folder / f"{name}.csv", cells)
    kept_policies = _write_csv(folder / "policies.csv", policies)
    if study.is_grid:
        _write_csv(folder / "curves.csv", curves_table(study))
    per_query_table(study).to_parquet(folder / "per_query.parquet", index=False)
    advice = recommendation(kept, study.measures[0])
    families = ""
    if len({collection.family for collection in study.collections}) > 1:
        families = families_page(study, _write_csv(folder / "families.csv", families_table(study)))
    write_text(folder / f"{name}.md", markdown(study, kept, kept_policies, advice, families))
    papers = (latex(study, one.name, tables_of(study, one, kept, kept_policies)) for one in study.collections)
    write_text(folder / f"{name}.tex", "\n".join(papers))
    if found := [answer for claim in study.claims if (answer := held(study, claim))]:
        rows = [answer.rows.assign(claim=answer.claim.name) for answer in found]
        _write_csv(folder / "claims.csv", pd.concat(rows, ignore_index=True))
        write_text(folder / "claims.md", claims_page(study, found))
    if study.choice:
        write_text(folder / "choice.md", choice_page(study, study.choice))
    page = folder / "report.html"
    if report:
        write_text(page, html(study, cells, policies, advice))
    else:
        page.unlink(missing_ok=True)  # an earlier study's would stand beside the tables of this one


def _write_csv(file: Path, table: Any) -> Any:
    """Write a table, and return it with the digits of the file, so that pages show what the file holds."""
    digits = "%.6g"
    table.to_csv(file, index=False, lineterminator="\n", float_format=digits)
    return table.map(lambda value: float(digits % value) if isinstance(value, float) else value)
