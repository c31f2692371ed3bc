"""Writes the files of a study."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryFile

from experiments.publish.folders import note_missing, remove_new_empty
from experiments.study.figures import draw_front, draw_lines
from experiments.study.markdown import markdown
from experiments.study.report import html
from experiments.study.study import Study
from experiments.study.tables import cells_table, per_query_table, policies_table
from ragtune.core.errors import ConfigError


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


def write_study(study: Study, folder: Path, *, report: bool) -> None:
    """Write Parquet, CSV, Markdown, two figures a collection and, if asked for, the interactive report."""
    folder.mkdir(parents=True, exist_ok=True)
    cells, policies = cells_table(study), policies_table(study)
    name = "frontier" if study.is_grid else "compare"
    cells.to_parquet(folder / f"{name}.parquet", index=False)
    cells.to_csv(folder / f"{name}.csv", index=False, lineterminator="\n", float_format="%.6g")
    policies.to_csv(folder / "policies.csv", index=False, lineterminator="\n", float_format="%.6g")
    per_query_table(study).to_parquet(folder / "per_query.parquet", index=False)
    for collection in study.collections:
        stem = file_stem(collection.name)
        draw_lines(folder / f"{stem}.curves.png", study, collection)
        draw_front(folder / f"{stem}.front.png", study, collection)
    _write(folder / f"{name}.md", markdown(study, cells, policies))
    if report:
        _write(folder / "report.html", html(study, cells, policies))


def file_stem(name: str) -> str:
    """The name of a collection as part of a file name."""
    return re.sub(r"[^\w.-]+", "-", name)


def _write(file: Path, text: str) -> None:
    temporary = file.with_name(f".{file.name}")
    temporary.write_text(text, encoding="utf-8", newline="\n")
    temporary.replace(file)
