"""The journal of labels: what a kill, a second thought and a damaged line leave."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.datasets.beir import read_qrels
from experiments.label.labels import SKIPPED, Label, Labels
from ragtune.core.errors import DatasetError


def label(doc_id: str, grade: int | str, by: str = "person") -> Label:
    return Label(query_id="q", doc_id=doc_id, grade=grade, by=by)


def test_labels_survive_a_kill_in_the_middle_of_a_line(tmp_path: Path) -> None:
    labels = Labels(tmp_path)
    labels.add(label("a", 2))
    labels.add(label("b", 0))
    journal = tmp_path / "labels.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"query_id":"q","doc_id":"c","gra')
    again = Labels(tmp_path)
    assert again.grades == {("q", "a"): 2, ("q", "b"): 0}
    again.add(label("c", 1))
    assert list(Labels(tmp_path).grades.values()) == [2, 0, 1]


def test_undo_takes_back_the_latest_label_and_a_skipped_one_is_no_grade(tmp_path: Path) -> None:
    labels = Labels(tmp_path)
    for one in (label("a", 2), label("b", SKIPPED), label("c", 1, by="model-x")):
        labels.add(one)
    assert labels.by_models == {"model-x": 1}
    assert labels.undo() == label("c", 1, by="model-x")
    assert labels.undo() == label("b", SKIPPED)
    assert Labels(tmp_path).latest == [label("a", 2)]
    labels.undo()
    assert labels.undo() is None


def test_the_qrels_hold_zeros_and_are_read_as_judgments(tmp_path: Path) -> None:
    labels = Labels(tmp_path)
    for one in (label("b", 0), label("a", 3), label("c", SKIPPED)):
        labels.add(one)
    assert read_qrels(labels.write_qrels()) == {"q": {"a": 3, "b": 0}}


@pytest.mark.parametrize("line", ["not json", '{"query_id":"q","doc_id":"d","grade":7}'])
def test_a_damaged_line_is_named(line: str, tmp_path: Path) -> None:
    Labels(tmp_path).add(label("a", 2))
    with (tmp_path / "labels.jsonl").open("a") as out:
        out.write(line + "\n")
    with pytest.raises(DatasetError, match=r"labels\.jsonl:2: "):
        Labels(tmp_path)
