"""A results folder that cannot be written is refused at once, and a look at it leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.report.write import require_writable
from ragtune.core.errors import ConfigError


def test_a_folder_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "a" / "b"):
        with pytest.raises(ConfigError, match="nothing can be written") as refused:
            require_writable(folder)
        assert repr(str(folder)) in str(refused.value)


def test_what_the_look_made_is_gone_and_what_was_there_stays(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    require_writable(tmp_path / "old")
    require_writable(tmp_path / "old" / "new" / "newer")
    assert [p.name for p in tmp_path.rglob("*")] == ["old"]
