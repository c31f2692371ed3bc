"""Writers name the file for which there is no room, and leave no half of it."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from experiments.publish.files import write_csv, write_parquet, write_text
from experiments.study.cellreplay import _write_cell
from ragtune.cli.dispatch import complain


@pytest.fixture
def small_files() -> Iterator[None]:
    """Files of at most 100 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


NUMBERS = [i / 7 for i in range(999)]


@pytest.mark.parametrize(
    "write",
    [
        lambda file: write_text(file, "x" * 10_000),  # pages of advice and of studies
        lambda file: _write_cell(file, "20", {"values": NUMBERS}),
        lambda file: write_csv(file, {"column": NUMBERS}),
        lambda file: write_parquet(file, {"column": np.array(NUMBERS)}),
    ],
    ids=["page", "cell", "csv", "parquet"],
)
@pytest.mark.usefixtures("small_files")
def test_a_full_disk_names_the_file(
    write: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "written"
    with pytest.raises(OSError, match=r"File too large|errno 27") as full:
        write(file)
    assert complain(full.value) == 1
    assert capsys.readouterr().err.startswith(f"error: no room for {file}: ")
