"""Writes the advice as a page and as plain data, and prints it."""

from __future__ import annotations

import json
from pathlib import Path

from experiments.advise import words
from experiments.advise.advice import Advice
from experiments.advise.figure import svg
from experiments.advise.snippets import FILE
from experiments.publish.files import write_text
from experiments.report.report import STYLE, Trusted

PAGE = Path(__file__).with_name("page.html")


def write_advice(advice: Advice, folder: Path) -> None:
    """Write ``advice.html``, which needs no other file and no network, and ``advice.json``."""
    from jinja2 import Environment

    folder.mkdir(parents=True, exist_ok=True)
    template = Environment(autoescape=True).from_string(PAGE.read_text(encoding="utf-8"))
    style = Trusted(STYLE.read_text(encoding="utf-8"))
    write_text(folder / "advice.html", template.render(a=advice, w=words, style=style, figure=svg(advice)))
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
