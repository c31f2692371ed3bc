"""Records as HTML. Every text is escaped: a document's own markup is shown, never rendered and never fetched."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ragtune.superprompt.page.records import ChunkRow

STYLE = """<style>
.stMainBlockContainer { padding: 2.75rem 2.5rem 4rem; }
[data-testid="stSidebarHeader"] { height: 2rem; margin-bottom: 0; }
.st-key-stages button { min-height: 3.4rem; padding: 0.3rem 0.4rem; }
.st-key-stages button p { white-space: normal; overflow: visible; line-height: 1.2; font-size: 0.85rem; }
.st-key-super_prompt pre { border: 1px solid rgba(128, 128, 128, 0.25); }
.rt-table { width: 100%; border-collapse: collapse; font-size: 0.9rem; line-height: 1.45; }
.rt-table th, .rt-table td { text-align: left; vertical-align: top; padding: 0.5rem 0.9rem 0.5rem 0; }
.rt-table th { font-weight: 600; opacity: 0.65; white-space: nowrap; }
.rt-table td { border-top: 1px solid rgba(128, 128, 128, 0.25); }
.rt-table .rt-num { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.rt-table .rt-text { white-space: pre-wrap; overflow-wrap: anywhere; width: 99%; }
.rt-table .rt-id { min-width: 8rem; max-width: 16rem; overflow-wrap: anywhere; }
.rt-dim { opacity: 0.65; font-size: 0.85em; }
.rt-total td { font-weight: 600; }
</style>"""

_BLANK_LINES, _LINE = re.compile(r"\n\s*\n"), "\n"
_ZERO = "<span class='rt-dim'>&ndash;</span>"
_UNITS = ("calls", "docs", "tokens", "usd")


def chunk_table(rows: Sequence[ChunkRow]) -> str:
    """A table of chunks with rank and move, score, source and text."""
    head = "<th class='rt-num'>#</th><th class='rt-num'>score</th><th>source</th><th>text</th>"
    return _table(head, [_chunk_line(row) for row in rows])


def cost_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table of costs: a line for each run of a stage, and the sum."""
    head = "<th>stage</th><th class='rt-num'>ms</th>"
    head += "".join(f"<th class='rt-num'>{_heading(unit)}</th>" for unit in _UNITS)
    head += "<th class='rt-num'>really paid, usd</th>"
    total = {
        f"{kind}_{unit}": sum(row[f"{kind}_{unit}"] for row in rows) for kind in ("charged", "paid") for unit in _UNITS
    }
    total |= {"stage": "all", "outcome": "done", "ms": sum(row["ms"] or 0.0 for row in rows)}
    lines = [f"<tr>{_cost_cells(row)}</tr>" for row in rows]
    return _table(head, [*lines, f"<tr class='rt-total'>{_cost_cells(total)}</tr>"])


def _table(head: str, lines: Sequence[str]) -> str:
    return f"<table class='rt-table'><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _chunk_line(row: ChunkRow) -> str:
    score = "" if row.score is None else f"{row.score:.3f}"
    source = f"<span title='{escape(row.chunk_id, quote=True)}'>{escape(row.chunk_id)}</span>"
    return (
        f"<tr><td class='rt-num'>{row.rank}<br><span class='rt-dim'>{_move(row)}</span></td>"
        f"<td class='rt-num'>{score}<br><span class='rt-dim'>{escape(row.scored_by)}</span></td>"
        f"<td class='rt-id'>{source}<br><span class='rt-dim'>{escape(row.source)} {escape(row.span)}</span></td>"
        f"<td class='rt-text'>{escape(_BLANK_LINES.sub(_LINE, row.text))}</td></tr>"
    )


def _move(row: ChunkRow) -> str:
    """How many places the chunk moved up or down against the view before."""
    if row.before is None:
        return ""
    places = row.before - row.rank
    if places == 0:
        return "="
    return f"&#9650; {places}" if places > 0 else f"&#9660; {-places}"


def _heading(unit: str) -> str:
    return {"usd": "charged, usd", "docs": "documents read"}.get(unit, unit)


def _cost_cells(row: Mapping[str, Any]) -> str:
    mark = " <span class='rt-dim'>failed</span>" if row["outcome"] == "failed" else ""
    numbers = ["" if row["ms"] is None else f"{row['ms']:,.1f}"]
    numbers += [f"{row[f'charged_{unit}']:,}" if row[f"charged_{unit}"] else _ZERO for unit in _UNITS[:-1]]
    numbers += [f"{row[key]:.4f}" if row[key] else _ZERO for key in ("charged_usd", "paid_usd")]
    cells = "".join(f"<td class='rt-num'>{number}</td>" for number in numbers)
    return f"<td>{escape(row['stage'].replace('_', ' '))}{mark}</td>{cells}"
