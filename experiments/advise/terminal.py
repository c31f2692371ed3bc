"""The advice in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.advise import words
from experiments.advise.advice import Advice


def print_advice(advice: Advice) -> None:
    """Print the advice on about one screen; the page has the rest."""
    from rich.console import Console
    from rich.panel import Panel
    from rich.text import Text

    console = Console(highlight=False, markup=False)
    title = f"{advice.dataset}, {advice.queries} queries: {words.goal(advice)}"
    body = Text(words.recommendation(advice), style="bold")
    body.append("\n" + "\n".join(words.beside_the_headline(advice)), style="not bold")
    console.print(Panel(body, title=Text(title), title_align="left"))
    for warning in advice.warnings:
        console.print(f"warning: {warning}")
    months = "; ".join(f"{what} {how_much}" for what, how_much in words.saved(advice))
    console.print(f"saved a month at {advice.traffic:,} queries: {months}")
    console.print()
    if advice.ladder:
        _table(
            (words.ladder_head(advice), "at least", "cost a query", "saved", advice.measure),
            [
                (
                    words.rung_name(one),
                    words.share(one.quality),
                    words.each(advice.unit, one.cost),
                    words.share(one.saved),
                    words.bought(one),
                )
                for one in advice.ladder
            ],
            [i for i, one in enumerate(advice.ladder) if one.gain is None],
        )
        console.print(words.of_the_ladder(advice))
    for sentence in words.sureness(advice):
        console.print(f"- {sentence}")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], bold: Sequence[int]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, head in enumerate(heads):
        table.add_column(head, justify="right" if i else "left")
    for i, row in enumerate(rows):
        table.add_row(*row, style="bold" if i in bold else "")
    Console(highlight=False, markup=False).print(table)
