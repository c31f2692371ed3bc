"""Presets from elsewhere: what they would have Hydra itself call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest


@pytest.mark.parametrize("way", ["--config-dir", "hydra.searchpath"])
def test_a_preset_from_elsewhere_is_refused_before_hydra_calls_it(
    way: str, tmp_path: Path, run_here: Callable[..., SimpleNamespace]
) -> None:
    (tmp_path / "conf" / "experiment").mkdir(parents=True)
    call = f"hydra: {{callbacks: {{x: {{_target_: os.mkdir, path: {tmp_path}/made}}}}}}\n"
    (tmp_path / "conf" / "experiment" / "evil.yaml").write_text("# @package _global_\n" + call)
    where = [way, f"{tmp_path}/conf"] if way[0] == "-" else [f"{way}=[file://{tmp_path}/conf]"]
    ended = run_here(*where, "experiment=evil", "tracking=none", "hydra.run.dir=out", cwd=tmp_path)
    assert ended.code == 2
    assert "hydra.callbacks._target_='os.mkdir': allowed are classes of" in ended.err
    assert not (tmp_path / "made").exists()


def test_a_folder_of_presets_that_is_missing_is_named(tmp_path: Path, run_here: Callable[..., SimpleNamespace]) -> None:
    ended = run_here("--config-dir", f"{tmp_path}/none", "tracking=none", cwd=tmp_path)
    assert (ended.code, ended.err) == (2, f"error: --config-dir {tmp_path}/none: there is no such folder\n")


def test_a_signal_without_a_name_is_told_of_the_line_that_gives_one(
    tmp_path: Path, run_here: Callable[..., SimpleNamespace]
) -> None:
    (tmp_path / "conf" / "signal").mkdir(parents=True)
    (tmp_path / "conf" / "signal" / "mine.yaml").write_text("_target_: ragtune.signals.lexical.LexicalSignal\n")
    ended = run_here(
        "--config-dir", f"{tmp_path}/conf", "signal=mine", "tracking=none", "hydra.run.dir=out", cwd=tmp_path
    )
    assert ended.code == 2
    assert "begins with the line '# @package signal.NAME'" in ended.err
    assert "Traceback" not in ended.err
