"""The index page of a folder of results: each study with what it recommends, and links that work from disk.

It is written anew whenever a study is; ``python -m experiments.study.overview [FOLDER]`` does it by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from experiments.publish.files import write_text
from experiments.study.recommendation import Recommendation, recommendation
from ragtune.core.errors import ConfigError

KINDS_OF_STUDY = {"frontier": "Studies: policies and budgets on collections", "compare": "Compared runs"}
"""Folders of studies below the folder of results, with their headings. A study's table is named after its folder."""

FILES = {"report.html": "report", "claims.md": "claims", "choice.md": "choice of a policy"}
FILES |= {"changes.md": "what changed", "{}.md": "tables", "{}.csv": "cells (CSV)", "policies.csv": "policies (CSV)"}
"""Files of a study that the page links to where they are there, with what it calls them."""

STYLE = """
body { margin: 0 auto; max-width: 60rem; padding: 1rem; color: #1b1f24; background: #fff; line-height: 1.5;
  font-family: system-ui, "DejaVu Sans", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2rem; border-bottom: 1px solid #d8dee4; }
article { border-left: 5px solid #0072B2; padding: .1rem 1rem; margin: 1rem 0; background: #f6f8fa; }
article.nothing { border-color: #767676; }
h3 { margin: .5rem 0 .2rem; } p { margin: .3rem 0; } .note { color: #57606a; font-size: .9rem; } a { color: #0b5cad; }
@media print { article { break-inside: avoid; } a { color: #000; } }
"""


def overview_of(study: Path) -> Path | None:
    """The folder of results that a study's folder belongs to; None where it stands by itself."""
    return study.parent.parent if study.parent.name in KINDS_OF_STUDY else None


def write_overview(results: Path) -> Path:
    """Write ``index.html`` into a folder of results, from the tables of the studies that it holds.

    Args:
        results: a folder with ``frontier/NAME`` or ``compare/NAME`` in it.

    Returns:
        The file.

    Raises:
        ConfigError: if there is no such folder.
    """
    if not results.is_dir():
        raise ConfigError(f"no folder of results {str(results)!r}: name one that holds frontier/ or compare/")
    parts = [
        f"<h2>{title}</h2>\n{''.join(found)}"
        for kind, title in KINDS_OF_STUDY.items()
        if (found := [*_articles(results, kind)])
    ]
    body = "\n".join(parts) or "<p>No study yet.</p>"
    file = results / "index.html"
    write_text(file, _page(body))
    return file


def _page(body: str) -> str:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>RAGtune: results</title>
<style>{STYLE}</style>
</head>
<body>
<h1>Results</h1>
<p>What each study recommends, by the rule that its tables and its report state. A report is made by the study's
command, which its tables name, and is not part of the repository.</p>
{body}
</body>
</html>
"""


def _articles(results: Path, kind: str) -> Iterator[str]:
    import pandas as pd

    for table in sorted(results.glob(f"{kind}/*/{kind}.csv")):
        cells = pd.read_csv(table)
        yield _article(table.parent, kind, cells, recommendation(cells, measures_of(cells)[0]))


def measures_of(cells: Any) -> list[str]:
    """The measures of a table of cells; by the first of them, its policies are ranked."""
    return [name for name in cells.columns if f"{name}_diff_low" in cells.columns]


def _article(folder: Path, kind: str, cells: Any, found: Recommendation) -> str:
    base = f"{kind}/{folder.name}"
    links = [(name.format(kind), text) for name, text in FILES.items()]
    links += [(file.name, file.name.removesuffix(".png")) for file in sorted(folder.glob("*.png"))]
    shown = ", ".join(
        f'<a href="{escape(f"{base}/{name}")}">{escape(text)}</a>' for name, text in links if (folder / name).is_file()
    )
    incumbent = cells.loc[cells["kind"] == "incumbent", "policy"].iloc[0]
    collections, policies = cells["collection"].unique(), cells["policy"].nunique()
    evidence = "".join(f"<li>{escape(sentence)}</li>" for sentence in found.evidence)
    return f"""<article{' class="nothing"' if found.policy == incumbent else ""}>
<h3>{escape(folder.name)}</h3>
<p><strong>{escape(found.title)}</strong> {escape(found.summary)}</p>
<details><summary>on each collection</summary><ul>{evidence}</ul></details>
<p class="note">{policies} policies on {escape(", ".join(collections))}</p>
<p>{shown}</p>
</article>
"""


if __name__ == "__main__":
    sys.stdout.write(f"{write_overview(Path(*sys.argv[1:2] or ['results']))}\n")
