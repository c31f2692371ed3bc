"""Writes the files of a study."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from experiments.publish.files import write_text
from experiments.publish.folders import note_missing, remove_new_empty
from experiments.report.claims import claims_page, held
from experiments.report.families import choice_page, families_page, families_table
from experiments.report.latex import latex
from experiments.report.markdown import markdown, tables_of
from experiments.report.recommendation import recommendation
from experiments.report.report import html
from experiments.report.study import Study
from experiments.report.tables import cells_table, curves_table, per_query_table, policies_table
from ragtune.core.errors import ConfigError


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


def write_study(study: Study, folder: Path, *, report: bool) -> None:
    """Write the tables, Markdown, claims and report."""
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
    _write_answers(study, folder)
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
        write_text(folder / "choice.md", choice_page(study, study.choice))
