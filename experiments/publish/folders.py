"""Hydra makes a run's folder before anyone knows whether there will be a run; what stays empty goes again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

_new: list[Path] = []
"""Folders that did not exist when Hydra started, innermost first."""


class FolderCallback(Callback):
    """Notes the folders that Hydra is about to make."""

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        note_missing(Path(config.hydra.run.dir))

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        note_missing(Path(config.hydra.sweep.dir))


def note_missing(folder: Path) -> None:
    """Remember which of ``folder`` and its parents do not exist yet."""
    folder = folder.absolute()
    _new.extend(f for f in (folder, *folder.parents) if not f.exists())


def remove_new_empty() -> None:
    """Remove the folders noted that are empty; a folder that was there before is never touched."""
    while _new:
        remove_if_empty(_new.pop(0))


def remove_if_empty(folder: Path) -> None:
    """Remove a folder without content."""
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
