"""The index page of a folder of results: one recommendation, and each study's question and finding, with its files.

The study with the most collections under budgets in documents makes the recommendation. The page is written anew
whenever a study is; ``python -m experiments.report.overview [FOLDER]`` does it by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from experiments.publish.files import write_text
from experiments.report.recommendation import Recommendation, nearest_for_less, recommended_in
from experiments.report.study import file_stem, unit_of
from ragtune.core.errors import ConfigError
from ragtune.core.units import DOCS

KINDS_OF_STUDY = {"frontier": "Studies", "compare": "Compared runs"}
"""Folders of studies below the folder of results, with their headings. A study's table is named after its folder."""

FILES = {"report.html": "report", "claims.md": "claims", "choice.md": "choice of a policy"}
FILES |= {"changes.md": "what changed", "{}.md": "tables", "{}.csv": "cells (CSV)", "policies.csv": "policies (CSV)"}
"""Files of a study that the page links to where they are there, with what it calls them."""

CURVES = ".curves.png"
"""Ending of the figure of a collection."""

STYLE = """
body { margin: 0 auto; max-width: 60rem; padding: 1rem; color: #1b1f24; background: #fff; line-height: 1.5;
  font-family: system-ui, "DejaVu Sans", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2rem; border-bottom: 1px solid #d8dee4; }
article { padding: .1rem 0; margin: 1rem 0; border-bottom: 1px solid #eaeef2; }
section { border-left: 5px solid #0072B2; padding: .1rem 1rem; margin: 1rem 0; background: #f6f8fa; }
h3 { font-size: 1rem; margin: .5rem 0 .2rem; } p, details { margin: .3rem 0; }
summary { color: #57606a; font-size: .9rem; } .note { color: #57606a; font-size: .9rem; } a { color: #0b5cad; }
@media print { article, section { break-inside: avoid; } a { color: #000; } }
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
    found = {kind: [*_studies(results, kind)] for kind in KINDS_OF_STUDY}
    parts = [_recommended(found["frontier"])]
    for kind, title in KINDS_OF_STUDY.items():
        parts += [f"<h2>{title}</h2>", *map(_article, found[kind])] if found[kind] else []
    file = results / "index.html"
    write_text(file, _page("\n".join(filter(None, parts)) or "<p>No study yet.</p>"))
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
{body}
</body>
</html>
"""


@dataclass(frozen=True)
class _Found:
    """One study: where it lies below the folder of results, its table of cells, its heading, and what it recommends."""

    folder: Path
    kind: str
    cells: Any
    heading: str
    advice: Recommendation

    @property
    def collections(self) -> list[str]:
        return [str(name) for name in self.cells["collection"].unique()]

    @property
    def question(self) -> str:
        """The heading of its tables; the folder's name where that says no more."""
        return self.heading if self.heading.endswith("?") else self.folder.name.replace("_", " ")


def _studies(results: Path, kind: str) -> Iterator[_Found]:
    import pandas as pd

    for tables in sorted(results.glob(f"{kind}/*/{kind}.md")):
        text, file = tables.read_text(encoding="utf-8"), tables.with_suffix(".csv")
        if file.is_file() and (advice := recommended_in(text)):
            cells = pd.read_csv(file, dtype={"budget": str})
            yield _Found(tables.parent, kind, cells, text.partition("\n")[0].removeprefix("# "), advice)


def _recommended(studies: Sequence[_Found]) -> str:
    """The recommendation of the study with the most collections, and what it holds for."""
    in_documents = [study for study in studies if unit_of(study.cells) is DOCS]
    if not in_documents:
        return ""
    widest = max(in_documents, key=lambda study: len(study.collections))
    nearest = nearest_for_less(widest.cells, measures_of(widest.cells)[0])
    return f"""<section>
<h2>Recommendation</h2>
<p>Asked: {escape(widest.question)}</p>
<p>Found: {escape(widest.advice.summary)} {escape(nearest)}</p>
<p><strong>{escape(widest.advice.title)}</strong></p>
<p>This is one rule for all {_counted(len(widest.collections), "pair")} of collection, first stage and reranker of
<a href="#{escape(widest.folder.name)}">the study with the most of them</a>. For your own data, ask
<code>ragtune advise</code>: one pair can need less.</p>
{_details("The pairs", f"<p>{escape(', '.join(widest.collections))}</p>")}
{_details("On each pair", _listed(widest.advice.evidence))}
{_details("By which rule", f"<p>{escape(widest.advice.rule)}</p>")}
</section>"""


def measures_of(cells: Any) -> list[str]:
    """The measures of a table of cells; by the first of them, its policies are ranked."""
    return [name for name in cells.columns if f"{name}_diff_low" in cells.columns]


def _article(study: _Found) -> str:
    policies = study.cells["policy"].nunique()
    return f"""<article id="{escape(study.folder.name)}">
<h3>{escape(study.question)}</h3>
<p>{escape(study.advice.title)} {escape(study.advice.summary)}</p>
<p class="note">{_counted(policies, "policy", "policies")}, {_counted(len(study.collections), "collection")}; folder
{escape(f"{study.kind}/{study.folder.name}")}</p>
{_details("On each collection", _listed(study.advice.evidence))}
{_details("Files", _files(study))}
</article>"""


def _files(study: _Found) -> str:
    """Links to the tables, then to the figures of each collection."""
    base = f"{study.kind}/{study.folder.name}"

    def link(name: str, text: str) -> str:
        return f'<a href="{escape(f"{base}/{name}")}">{escape(text)}</a>'

    named = {name.format(study.kind): text for name, text in FILES.items()}
    rows = [", ".join(link(name, text) for name, text in named.items() if (study.folder / name).is_file())]
    figures = sorted(file.name for file in study.folder.glob("*.png"))
    of_claims = [name for name in figures if not name.endswith(CURVES)]
    rows += [", ".join(link(name, name.removesuffix(".png").replace("-", " ")) for name in of_claims)]
    drawn = [(collection, f"{file_stem(collection)}{CURVES}") for collection in study.collections]
    rows += [", ".join(link(name, collection) for collection, name in drawn if name in figures)]
    return "<ul>" + "".join(f"<li>{row}</li>" for row in rows if row) + "</ul>"


def _details(summary: str, content: str) -> str:
    return f"<details><summary>{summary}</summary>{content}</details>"


def _listed(sentences: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(sentence)}</li>' for sentence in sentences)}</ul>"


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or f'{one}s'}"


if __name__ == "__main__":
    sys.stdout.write(f"{write_overview(Path(*sys.argv[1:2] or ['results']))}\n")
