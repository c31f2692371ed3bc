"""Writes the files of a study, and the index page of a folder of results: one recommendation, each study's finding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from experiments.publish.files import write_text
from experiments.publish.folders import note_missing, remove_new_empty
from experiments.report.claims import held
from experiments.report.claims_page import claims_page
from experiments.report.families import families_page, families_table
from experiments.report.figures import draw_lines
from experiments.report.latex import latex
from experiments.report.leave_one_out import choice_page, leave_one_out
from experiments.report.markdown import markdown, tables_of
from experiments.report.recommendation import Recommendation, recommendation, recommended_in
from experiments.report.report import html
from experiments.report.study import Study, file_stem, unit_of
from experiments.report.tables import cells_table, curves_table, per_query_table, policies_table
from ragtune.core.errors import ConfigError
from ragtune.core.units import DOCS

KINDS_OF_STUDY = {"frontier": "Studies", "compare": "Compared runs"}
"""Folders of studies below the folder of results, with their headings. A study's table is named after its folder."""

FILES = {"report.html": "report", "claims.md": "claims", "choice.md": "choice of a policy"}
FILES |= {
    "changes.md": "what changed",
    "{}.md": "tables",
    "{}.tex": "tables (LaTeX)",
    "{}.csv": "cells (CSV)",
    "policies.csv": "policies (CSV)",
}
FILES |= {"families.csv": "families (CSV)"}
"""Files that the page links to where they are there, with what it calls them."""

PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>RAGtune: results</title>
<style>
body { margin: 0 auto; max-width: 60rem; padding: 1rem; color: #1b1f24; background: #fff; line-height: 1.5;
  font-family: system-ui, "DejaVu Sans", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2rem; border-bottom: 1px solid #d8dee4; }
article { padding: .1rem 0; margin: 1rem 0; border-bottom: 1px solid #eaeef2; }
section { border-left: 5px solid #0072B2; padding: .1rem 1rem; margin: 1rem 0; background: #f6f8fa; }
h3 { font-size: 1rem; margin: .5rem 0 .2rem; } p, details { margin: .3rem 0; }
summary { color: #57606a; font-size: .9rem; } .note { color: #57606a; font-size: .9rem; } a { color: #0b5cad; }
@media print { article, section { break-inside: avoid; } a { color: #000; } }
</style>
</head>
<body>
<h1>Results</h1>
{% macro listed(sentences) %}<ul>{% for one in sentences %}<li>{{ one }}</li>{% endfor %}</ul>{% endmacro -%}
{% macro links(base, files) %}<li>{% for name, text in files %}<a href="{{ base }}/{{ name }}">{{ text }}</a>
{{- ", " if not loop.last }}{% endfor %}</li>{% endmacro -%}
{% if widest %}<section>
<h2>Recommendation</h2>
<p>Asked: {{ widest.question }}</p>
<p>Found: {{ widest.advice.summary }}</p>
<p><strong>{{ widest.advice.title }}</strong></p>
<p>This is one rule for all {{ widest.collections|length }} pairs of collection, first stage and reranker of
<a href="#{{ widest.folder.name }}">the study with the most of them</a>. For your own data, ask
<code>ragtune advise</code>: one pair can need less.</p>
<details><summary>The pairs</summary><p>{{ widest.collections|join(", ") }}</p></details>
<details><summary>On each pair</summary>{{ listed(widest.advice.evidence) }}</details>
<details><summary>By which rule</summary><p>{{ widest.advice.rule }}</p></details>
</section>
{% endif %}{% for kind, title in kinds.items() if found[kind] %}<h2>{{ title }}</h2>
{% for study in found[kind] %}<article id="{{ study.folder.name }}">
<h3>{{ study.question }}</h3>
<p>{{ study.advice.title }} {{ study.advice.summary }}</p>
<p class="note">Policies: {{ study.cells.policy.nunique() }}; collections: {{ study.collections|length }}; folder
{{ kind }}/{{ study.folder.name }}</p>
<details><summary>On each collection</summary>{{ listed(study.advice.evidence) }}</details>
<details><summary>Files</summary><ul>{% for files in study.files if files -%}
{{ links(kind ~ "/" ~ study.folder.name, files) }}{% endfor %}</ul></details>
</article>
{% endfor %}{% endfor %}</body>
</html>
"""


def require_writable(folder: Path) -> None:
    """Refuse a folder that results cannot be written into, before any work. Leaves nothing behind."""
    try:
        note_missing(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(f"nothing can be written to {str(folder)!r}: {error.strerror}") from None
    finally:
        remove_new_empty()


def write_study(study: Study, folder: Path, *, figures: bool = True, report: bool) -> None:
    """Write the tables, Markdown, claims, figures, report and, among results, the index page."""
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
    families = _families(study, folder)
    write_text(folder / f"{name}.md", markdown(study, kept, kept_policies, advice, families))
    papers = (latex(study, one.name, tables_of(study, one, kept, kept_policies)) for one in study.collections)
    write_text(folder / f"{name}.tex", "\n".join(papers))
    for collection in study.collections if figures else ():
        draw_lines(folder / f"{file_stem(collection.name)}.curves.png", study, collection)
    _write_answers(study, folder)
    page = folder / "report.html"
    if report:
        write_text(page, html(study, cells, policies, advice))
    else:
        page.unlink(missing_ok=True)  # an earlier study's would stand beside the tables of this one
    if results := overview_of(folder.resolve()):
        write_overview(results)


def _write_csv(file: Path, table: Any) -> Any:
    """Write a table, and return it with the digits of the file, so that pages show what the file holds."""
    digits = "%.6g"
    table.to_csv(file, index=False, lineterminator="\n", float_format=digits)
    return table.map(lambda value: float(digits % value) if isinstance(value, float) else value)


def _families(study: Study, folder: Path) -> str:
    if len({collection.family for collection in study.collections}) < 2:
        return ""
    return families_page(study, _write_csv(folder / "families.csv", families_table(study)))


def _write_answers(study: Study, folder: Path) -> None:
    import pandas as pd

    if found := [answer for claim in study.claims if (answer := held(study, claim))]:
        rows = [answer.rows.assign(claim=answer.claim.name) for answer in found]
        _write_csv(folder / "claims.csv", pd.concat(rows, ignore_index=True))
        write_text(folder / "claims.md", claims_page(study, found))
    if study.choice:
        write_text(folder / "choice.md", choice_page(study, study.choice, leave_one_out(study, study.choice)))


@dataclass(frozen=True)
class _Found:
    """One study: its folder, kind, table of cells, heading and recommendation."""

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
        """The heading of its tables; the folder's name where that is no question."""
        return self.heading if self.heading.endswith("?") else self.folder.name.replace("_", " ")

    @property
    def files(self) -> list[list[tuple[str, str]]]:
        """Names and texts of links: to the tables, then to the figures of each collection."""
        named = [(name.format(self.kind), text) for name, text in FILES.items()]
        drawn = [(f"{file_stem(collection)}.curves.png", collection) for collection in self.collections]
        return [[link for link in row if (self.folder / link[0]).is_file()] for row in (named, drawn)]


def overview_of(study: Path) -> Path | None:
    """The folder of results that a study's folder belongs to; None where it stands by itself."""
    return study.parent.parent if study.parent.name in KINDS_OF_STUDY else None


def write_overview(results: Path) -> Path:
    """Write ``index.html`` into a folder with ``frontier/NAME`` or ``compare/NAME`` in it, and return the file."""
    from jinja2 import Environment

    found = {kind: [*_studies(results, kind)] for kind in KINDS_OF_STUDY}
    in_documents = [study for study in found["frontier"] if unit_of(study.cells) is DOCS]
    widest = max(in_documents, key=lambda study: len(study.collections), default=None)
    page = Environment(autoescape=True, keep_trailing_newline=True).from_string(PAGE)
    file = results / "index.html"
    write_text(file, page.render(found=found, kinds=KINDS_OF_STUDY, widest=widest))
    return file


def _studies(results: Path, kind: str) -> Iterator[_Found]:
    import pandas as pd

    for tables in sorted(results.glob(f"{kind}/*/{kind}.md")):
        text, file = tables.read_text(encoding="utf-8"), tables.with_suffix(".csv")
        if file.is_file() and (advice := recommended_in(text)):
            cells = pd.read_csv(file, dtype={"budget": str})
            yield _Found(tables.parent, kind, cells, text.partition("\n")[0].removeprefix("# "), advice)
