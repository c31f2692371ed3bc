"""The tables of a study for papers: booktabs, with a caption and a note on the tests."""

from __future__ import annotations

import re
from collections.abc import Iterable

from experiments.evaluate.significance import SIGNIFICANT
from experiments.report.markdown import Table
from experiments.report.study import Study

_SPECIAL = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "▲": r"$^{\blacktriangle}$",
    "▼": r"$^{\blacktriangledown}$",
    "△": r"$^{\vartriangle}$",
    "▽": r"$^{\triangledown}$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "±": r"$\pm$",
    "[": "{[}",  # an option of the line break before it
}
_MARKED = re.compile(r"\*\*(\S|\S.*?\S)\*\*|\*(\S|\S.*?\S)\*")


def latex(study: Study, collection: str, tables: Iterable[Table]) -> str:
    r"""Return a ``table`` for each table of a collection; the preamble needs ``booktabs`` and ``amssymb``."""
    reference = study.by_name[study.reference].label
    span = "its budgets" if study.is_grid else "the runs compared"
    note = (
        f"▲ / ▼: above / below {reference}, p < {SIGNIFICANT:.2f} in the paired t-test and the paired randomization "
        f"test, Holm-corrected over {span}; △ / ▽: in one of the two. Intervals: {study.level:.0%}, bootstrap."
    )
    return "\n".join(latex_table(f"{collection}: {table.title}", table, note) for table in tables)


def latex_table(caption: str, table: Table, note: str, align: str = "") -> str:
    """Return a table in booktabs; ``align`` is the columns' kinds, by default the first one left, the others right."""
    rows = [" & ".join(map(_text, row)) + r" \\" for row in table.rows]
    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{_text(caption)}. {_text(note)}}}",
            rf"  \begin{{tabular}}{{{align or 'l' + 'r' * (len(table.columns) - 1)}}}",
            r"    \toprule",
            f"    {' & '.join(map(_text, table.columns))} " + r"\\",
            r"    \midrule",
            *(f"    {row}" for row in rows),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _text(cell: str) -> str:
    parts, end = [], 0
    for found in _MARKED.finditer(cell):
        bold, italic = found.groups()
        parts += [_escaped(cell[end : found.start()])]
        parts += [rf"\textbf{{{_escaped(bold)}}}" if bold else rf"\emph{{{_escaped(italic)}}}"]
        end = found.end()
    return "".join([*parts, _escaped(cell[end:])])


def _escaped(text: str) -> str:
    found = "".join(_SPECIAL.get(character, character) for character in text).replace("<", "$<$")
    return re.sub(r"(?<!\w)-(?=\.?\d)", "$-$", found)
