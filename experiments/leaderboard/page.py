"""Shows the board: as Markdown, which a terminal can show too, and as a page that sorts and filters without a server."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments.evaluate.significance import SIGNIFICANT
from experiments.leaderboard.board import LEVEL, RESAMPLES, Board, Standing
from experiments.publish.files import write_text
from experiments.report.report import STYLE
from experiments.report.tables import p_text
from ragtune.core.units import BY_SHORT

PAGE = Path(__file__).with_name("page.html")


def write_page(board: Board, folder: Path) -> Path:
    """Write ``index.html``, and ``cpu.js`` with the milliseconds: all other bytes depend on the records alone."""
    from jinja2 import Environment

    every = [standing for standings in board.standings.values() for standing in standings]
    cpu = {str(each.record["policy"]): each.cpu_ms for each in every if not math.isnan(each.cpu_ms)}
    write_text(folder / "cpu.js", f"const CPU = {json.dumps(dict(sorted(cpu.items())))};\n")
    template = Environment(autoescape=True, keep_trailing_newline=True).from_string(PAGE.read_text(encoding="utf-8"))
    page = template.render(
        style=STYLE.read_text(encoding="utf-8"),
        protocol=_protocol(board),
        measure=board.reference["protocol"]["measure"],
        units={unit: BY_SHORT[unit].noun for unit in board.standings},
        rows=[(unit, rank, each, _difference(each)) for unit, all_ in board.standings.items() for rank, each in _ranked(all_)],
        families=list(every[0].families),
        kinds=sorted({each.record["kind"] for each in every}),
        collections=board.reference["collections"],
        left_out=board.left_out,
    )
    write_text(folder / "index.html", page)
    return folder / "index.html"


def markdown(board: Board) -> str:
    """A table for each unit, with columns of even width, and what they show."""
    parts = [f"# Leaderboard\n\n{_protocol(board)}\n"]
    for unit, standings in board.standings.items():
        families = list(standings[0].families)
        rows = [["", "policy", "area", "interval", "less fixed depth", "p", "CPU ms", *families, "date", "code"]]
        for rank, each in _ranked(standings):
            cpu = "" if math.isnan(each.cpu_ms) else f"{each.cpu_ms:.1f}"
            own = [f"{rank}", str(each.record["label"]), f"{each.area:.3f}", f"[{each.low:.3f}, {each.high:.3f}]"]
            own += [_difference(each), "" if math.isnan(each.p) else p_text(each.p), cpu]
            own += [f"{value:.3f}" for value in each.families.values()]
            rows.append([*own, each.record["date"] or "", each.record["code"][:12]])
        parts.append(f"## Budgets in {BY_SHORT[unit].noun}\n\n{_table(rows)}\n")
    parts += [f"Left out: {name}, {why}.\n" for name, why in board.left_out.items()]
    parts += [f"- {name}: inputs {each['inputs'][:12]}" for name, each in board.reference["collections"].items()]
    return "\n".join(parts) + "\n"


def _ranked(standings: Sequence[Standing]) -> Iterator[tuple[int, Standing]]:
    return enumerate(standings, 1)


def _difference(standing: Standing) -> str:
    """Less fixed depth, with its interval, and a mark where the test supports it."""
    if math.isnan(standing.p):
        return ""
    mark = ("▲" if standing.difference > 0 else "▼") if standing.p < SIGNIFICANT else ""
    return (
        f"{standing.difference:+.3f} [{standing.difference_low:+.3f}, {standing.difference_high:+.3f}]{mark and ' '}{mark}"
    )


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |" for row in rows]
    return "\n".join([lines[0], f"|{'|'.join('-' * (width + 2) for width in widths)}|", *lines[1:]])


def _protocol(board: Board) -> str:
    protocol, collections = board.reference["protocol"], board.reference["collections"]
    budgets = [f"{', '.join(map(str, amounts))} {BY_SHORT[unit].noun}" for unit, amounts, *_ in protocol["tracks"]]
    families = {each["family"] for each in collections.values()}
    return (
        f"Area: mean {protocol['measure']} between the smallest and the largest budget, over the logarithm of the mean cost. "
        f"Each of {len(families)} families of {len(collections)} collections counts once. Budgets: {'; '.join(budgets)}. "
        f"Intervals: {LEVEL:.0%}, {RESAMPLES} bootstrap resamples of queries. ▲ and ▼: above and below fixed depth, "
        f"p < {SIGNIFICANT:.2f} by a randomization test, Holm-corrected over the policies of a unit. "
        "CPU ms: the policy's own work for a request of 20 documents; of a preset with the loop around it."
    )
