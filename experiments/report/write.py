"""Writes the files of a study."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from experiments.publish.files import write_text
from experiments.publish.folders import note_missing, remove_new_empty
from experiments.report.claims import held
from experiments.report.claims_page import claims_csv, claims_page, draw_claim, figure_name
from experiments.report.figures import draw_lines
from experiments.report.leave_one_out import choice_page, leave_one_out
from experiments.report.markdown import markdown
from experiments.report.overview import overview_of, write_overview
from experiments.report.recommendation import recommendation
from experiments.report.report import html
from experiments.report.study import Study, file_stem
from experiments.report.tables import cells_table, curves_table, per_query_table, policies_table
from ragtune.core.errors import ConfigError

_DIGITS = "%.6g"
"""Of the numbers in CSV files."""


def require_writable(folder: Path) -> None:
    """Refuse a folder that results cannot be written into. It is called before any work, and leaves nothing behind.

    Raises:
        ConfigError: naming the folder and what is in the way.
    """
    try:
        note_missing(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(f"nothing can be written to {str(folder)!r}: {error.strerror}") from None
    finally:
        remove_new_empty()


def _as_kept(table: Any) -> Any:
    """A table with the digits of its CSV: a page that is drawn again from there rounds them no other way."""
    return table.map(lambda value: float(_DIGITS % value) if isinstance(value, float) else value)


def write_study(study: Study, folder: Path, *, figures: bool = True, report: bool) -> None:
    """Write Parquet, CSV, Markdown, what is asked of the study, a figure for each collection, and the report.

    The index page of the folder of results is written too, where the study lies in one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    cells, policies = cells_table(study), policies_table(study)
    name = _table_name(study)
    cells.to_parquet(folder / f"{name}.parquet", index=False)
    cells.to_csv(folder / f"{name}.csv", index=False, lineterminator="\n", float_format=_DIGITS)
    policies.to_csv(folder / "policies.csv", index=False, lineterminator="\n", float_format=_DIGITS)
    if study.is_grid:
        curves_table(study).to_csv(folder / "curves.csv", index=False, lineterminator="\n", float_format=_DIGITS)
    per_query_table(study).to_parquet(folder / "per_query.parquet", index=False)
    kept = _as_kept(cells)
    advice = recommendation(kept, study.measures[0])
    write_text(folder / f"{name}.md", markdown(study, kept, _as_kept(policies), advice))
    if figures:
        draw_collections(study, folder)
    _write_answers(study, folder)
    page = folder / "report.html"
    if report:
        write_text(page, html(study, cells, policies, advice))
    else:
        page.unlink(missing_ok=True)  # an earlier study's would stand beside the tables of this one
    if results := overview_of(folder.resolve()):
        write_overview(results)


def _write_answers(study: Study, folder: Path) -> None:
    """What became of the study's claims, and which policy is chosen, where that is asked."""
    if found := [answer for claim in study.claims if (answer := held(study, claim))]:
        table = claims_csv(found)
        table.to_csv(folder / "claims.csv", index=False, lineterminator="\n", float_format=_DIGITS)
        write_text(folder / "claims.md", claims_page(study, found))
        for number, answer in enumerate(found, 1):
            if answer.claim.ahead is None:
                draw_claim(folder / figure_name(number), study, answer)
    if study.choice:
        write_text(folder / "choice.md", choice_page(study, study.choice, leave_one_out(study, study.choice)))


def draw_collections(study: Study, folder: Path) -> None:
    """Draw a figure for each collection, which needs the lines of a study only."""
    for collection in study.collections:
        draw_lines(folder / f"{file_stem(collection.name)}.curves.png", study, collection)


def _table_name(study: Study) -> str:
    return "frontier" if study.is_grid else "compare"
