"""Folders that nothing was written to go again; those that were there before stay."""

from __future__ import annotations

from pathlib import Path

from experiments.publish.folders import note_missing, remove_new_empty


def test_new_folders_that_stayed_empty_are_removed_with_their_new_parents(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "runs" / "now"
    note_missing(folder)
    folder.mkdir(parents=True)
    remove_new_empty()
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_that_was_there_before_is_left_alone(tmp_path: Path) -> None:
    note_missing(tmp_path)
    remove_new_empty()
    assert tmp_path.is_dir()


def test_folders_with_content_stay(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "now"
    note_missing(folder)
    folder.mkdir(parents=True)
    (folder / "file").touch()
    remove_new_empty()
    assert (folder / "file").exists()


def test_a_path_below_a_file_is_no_problem(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    note_missing(tmp_path / "file" / "run")
    remove_new_empty()
    assert (tmp_path / "file").exists()
