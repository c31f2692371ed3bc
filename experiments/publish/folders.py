"""Removes folders that were made for a run which then wrote nothing into them.

Hydra makes the folder of a run before anyone knows whether there will be a run.
"""

from __future__ import annotations

from pathlib import Path

_new: list[Path] = []
"""Folders that did not exist before the run, innermost first."""


def note_missing(folder: Path) -> None:
    """Remember which of a folder and its parents do not exist yet."""
    folder = folder.absolute()
    _new.extend(f for f in (folder, *folder.parents) if not f.exists())


def remove_new_empty() -> None:
    """Remove those of the remembered folders that are empty; other folders are never touched."""
    while _new:
        remove_if_empty(_new.pop(0))


def remove_if_empty(folder: Path) -> None:
    """Remove a folder if it is there and holds nothing."""
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
