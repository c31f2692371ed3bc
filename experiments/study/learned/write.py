"""Measures learned priors and writes the files of the results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.config.progress import Progress
from experiments.publish.columns import write_csv
from experiments.publish.files import write_text
from experiments.study.frontier import study_of
from experiments.study.grid import Grid
from experiments.study.learned.figures import draw_curves
from experiments.study.learned.markdown import NAME, learned_page, picture_name
from experiments.study.learned.replays import bases_of, prepared, replay
from experiments.study.learned.tables import rows_of, table_of
from experiments.study.write import require_writable


def learn(grid: Grid, policies: Sequence[str], folder: Path, command: str, progress: Progress) -> Path:
    """Measure what learned priors bring to some policies of a study, and write page, table and pictures.

    Args:
        grid: a study of budgets in documents, with at least two groups of collections.
        policies: names of its own policies whose priors are replaced.
        folder: of the results, with the finished cells below ``cells/``.
        command: the command that makes them again.
        progress: called with the number of cells done.

    Returns:
        The page.

    Raises:
        ConfigError: if a policy is unknown or has no prior, there are too few groups, or nothing can be written there.
    """
    require_writable(folder)
    grid = prepared(grid, policies, folder / "cells")
    cells = replay(grid, folder / "cells", progress)
    study = study_of(grid, cells, command)
    rows = rows_of(study, cells, bases_of(grid))
    write_csv(folder / f"{NAME}.csv", table_of(rows))
    for policy in (base.policy for base in bases_of(grid)):
        draw_curves(folder / picture_name(policy), study, policy, rows)
    write_text(folder / f"{NAME}.md", learned_page(study, rows))
    return folder / f"{NAME}.md"
