"""Writes the advice as a page, as plain data, and as commands to copy, and prints it."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.advise import words
from experiments.advise.advice import Advice, Row
from experiments.advise.options import FIXED, INTERPOLATED, Candidate
from experiments.publish.files import write_text
from experiments.report.report import STYLE

PAGE = Path(__file__).with_name("page.html")
FILE = "advice.json"


def write_advice(advice: Advice, folder: Path) -> None:
    """Write ``advice.html``, which needs no other file and no network, and ``advice.json``."""
    from jinja2 import Environment

    folder.mkdir(parents=True, exist_ok=True)
    template = Environment(autoescape=True).from_string(PAGE.read_text(encoding="utf-8"))
    style = STYLE.read_text(encoding="utf-8")
    write_text(folder / "advice.html", template.render(a=advice, w=words, style=style, figure=_svg(advice)))
    write_text(folder / FILE, json.dumps(advice.model_dump(mode="json"), indent=1) + "\n")


def print_advice(advice: Advice) -> None:
    """Print the advice on about one screen; the page has the rest."""
    from rich import box
    from rich.console import Console
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, markup=False)
    title = f"{advice.dataset}, {advice.queries} queries: {words.goal(advice)}"
    body = Text(words.recommendation(advice), style="bold")
    body.append("\n" + "\n".join(words.beside_the_headline(advice)), style="not bold")
    console.print(Panel(body, title=Text(title), title_align="left"))
    for warning in advice.warnings:
        console.print(f"warning: {warning}")
    months = "; ".join(f"{what} {how_much}" for what, how_much in words.saved(advice))
    console.print(f"saved a month at {advice.traffic:,} queries: {months}\n")
    if advice.ladder:
        heads, *rows = words.ladder(advice)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for i, head in enumerate(heads):
            table.add_column(head, justify="right" if i else "left")
        for row in rows:
            table.add_row(*row, style="bold" if row[-1] == "recommended" else "")
        console.print(table, words.of_the_ladder(advice))
    for sentence in words.sureness(advice):
        console.print(f"- {sentence}")


_FACADE = """\
from ragtune import BudgetedReranker
from ragtune.facade.advice import advised
{model}
reranker = BudgetedReranker(model, **advised({file!r}))
ranking = reranker.rank(
    "green tea",
    ["Coffee is roasted.", "Green tea is steamed.", "Ships have sails."],
    scores=[3.1, 7.4, 0.2],  # the first stage's, higher is better
)
print([found.index for found in ranking])
"""

_STAND_IN = """

def model(query, texts):  # in its place: a cross-encoder's folder or hub name, or a rerank server's address
    words = set(query.lower().split())
    return [len(words & set(text.lower().split())) / len(words) for text in texts]

"""

_FLAGS = {
    "model": "--upstream-model",
    "dialect": "--upstream-dialect",
    "api_key_env": "--upstream-key-env",
    "usd_per_search_unit": "--usd-per-search-unit",
    "usd_per_1k_tokens": "--usd-per-1k-tokens",
}

_NOTHING = "# Reranking is not worth its cost here: keep the first stage's order.\n"


def snippets(row: Row, reranker: Mapping[str, Any], data: Sequence[str], folder: Path) -> dict[str, str]:
    """What to copy, by where it goes: ``run``, ``facade``, ``serve``."""
    candidate = Candidate(row.policy, row.batch_size, row.label, row.trust, row.weight)
    run = shlex.join(["ragtune", "run", *data, *candidate.overrides, f"budget={row.budget}"])
    if not row.budget:
        return {"run": run, "facade": _NOTHING, "serve": _NOTHING}
    file = str(folder / FILE)
    is_local = str(reranker["_target_"]).endswith(".CrossEncoderReranker")
    model = str(reranker["model"]) if is_local else reranker.get("url")
    program = _FACADE.format(model=f"\nmodel = {model!r}" if model else _STAND_IN, file=file)
    return {"run": run, "facade": program, "serve": _serve(model, reranker, file)}


def _serve(model: str | None, reranker: Mapping[str, Any], file: str) -> str:
    words = ["ragtune", "serve", "--store", "memory", "--model", model or "MODEL", "--advice", file]
    own = {name: flag for name, flag in _FLAGS.items() if reranker.get("url") or name.startswith("usd_")}
    words += [part for name, flag in own.items() if reranker.get(name) for part in (flag, str(reranker[name]))]
    note = "" if model else "# MODEL: your cross-encoder (a folder or a hub name), or your rerank server's address\n"
    return note + shlex.join(words) + "\n"


_LOOK: dict[str, dict[str, Any]] = {
    FIXED: {"color": "#000000", "linestyle": (0, (2, 1.5)), "marker": "s"},
    INTERPOLATED: {"color": "#767676", "linestyle": (0, (5, 2)), "marker": "v"},
    "uncertainty": {"color": "#0072B2", "linestyle": "-", "marker": "o"},
    "settled": {"color": "#D55E00", "linestyle": (0, (6, 1.5)), "marker": "^"},
    "early_stop": {"color": "#009E73", "linestyle": (0, (4, 1, 1, 1)), "marker": "D"},
}
"""Okabe and Ito's colours, and a dash and a marker each for print in black."""


def _svg(advice: Advice) -> str:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "ragtune", "font.family": "sans-serif", "font.size": 12}):
        figure = Figure(figsize=(7.2, 5.1), layout="constrained")
        _draw(figure.subplots(), advice)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace("font: 12px 'sans-serif'", "font: 12px sans-serif")
    said = f"Quality kept against documents a query; recommended: {advice.recommended.label}"
    return text.replace("<svg", f'<svg role="img" aria-label="{said}"', 1)


def _draw(axes: Any, advice: Advice) -> None:
    best, kept = advice.recommended, advice.recommended.kept
    for curve in _shown(advice):
        first = curve[0]
        axes.plot(
            [row.cost["docs"] for row in curve],
            [100.0 * row.kept.value for row in curve],
            label="fixed depth" if first.policy == FIXED else first.label.rpartition(", ")[0],
            linewidth=2.2 if first.policy == best.policy else 1.4,
            markersize=4.5,
            zorder=4,
            **_LOOK[first.policy],
        )
    wanted = 100.0 if advice.is_worse else 100.0 * advice.quality
    text = "wanted: above the first stage" if advice.is_worse else f"wanted: {wanted:.4g}%"
    axes.axhline(wanted, color="0.35", linewidth=0.9, linestyle=(0, (1, 2)))
    axes.text(1.0, wanted, text, transform=axes.get_yaxis_transform(), ha="right", va="bottom", color="0.3")
    x, y, red = best.cost["docs"], 100.0 * kept.value, "#b00020"
    if kept.low is not None and kept.high is not None:
        ends = [[y - 100.0 * kept.low], [100.0 * kept.high - y]]
        axes.errorbar([x], [y], yerr=ends, color=red, capsize=5, linewidth=1.6, zorder=5)
    axes.scatter([x], [y], s=170, facecolors="none", edgecolors=red, linewidths=2, zorder=6, label="recommended")
    axes.set_xlabel("documents that the reranker reads, mean a query")
    axes.set_ylabel(f"{advice.measure}, % of {words.target(advice)}" if advice.judged else f"{advice.measure}, %")
    axes.set_xlim(left=0)
    axes.grid(color="0.9", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.figure.legend(fontsize=10.5, frameon=False, loc="outside lower center", ncols=2)


def _shown(advice: Advice) -> list[list[Row]]:
    """Of each policy the recommended batches, else the smallest."""
    found: dict[str, list[Row]] = {}
    batches = {row.policy: row.batch_size for row in reversed(advice.options)}
    batches[advice.recommended.policy] = advice.recommended.batch_size
    for row in advice.options:
        if row.batch_size == batches[row.policy]:
            found.setdefault(row.policy, []).append(row)
    return list(found.values())
