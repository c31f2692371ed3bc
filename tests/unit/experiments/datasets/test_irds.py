"""The real ir_datasets loader, over local files registered with ir_datasets itself."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ir_datasets
import pytest

from experiments.datasets.irds import IrdsDataset
from ragtune.core.errors import DatasetError

DOCS = "d1\tblood pressure and the heart\nd2\tknots and ropes of a ship\nd3\thoney for a sore throat\n"
QUERIES = "q1\theart pressure\nq2\tship knots\n"
QRELS = "q1 0 d1 2\nq1 0 d3 0\nq2 0 d2 1\n"


@pytest.fixture
def register(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Registers a dataset of local files and forgets it afterwards."""
    made: list[str] = []

    def make(name: str = "local/tiny", **files: str) -> str:
        for part, content in files.items():
            (tmp_path / part).write_text(content)
        paths = {f"{part}_tsv" if part != "qrels" else "qrels_trec": str(tmp_path / part) for part in files}
        ir_datasets.registry.register(name, ir_datasets.create_dataset(**paths))
        made.append(name)
        return name

    yield make
    for name in made:
        del ir_datasets.registry._registered[name]


def test_a_collection_comes_with_documents_queries_and_judgments(register: Callable[..., str]) -> None:
    dataset = IrdsDataset(register(docs=DOCS, queries=QUERIES, qrels=QRELS)).load()
    assert dataset.name == "local/tiny"
    assert dataset.corpus.doc_ids == ["d1", "d2", "d3"]
    assert dataset.corpus["d1"].content == "blood pressure and the heart"
    assert dataset.queries == {"q1": "heart pressure", "q2": "ship knots"}
    assert dataset.qrels == {"q1": {"d1": 2, "d3": 0}, "q2": {"d2": 1}}


@pytest.mark.parametrize("missing", ["docs", "qrels"])
def test_an_id_without_one_of_its_parts_is_refused(register: Callable[..., str], missing: str) -> None:
    files: dict[str, Any] = {"docs": DOCS, "queries": QUERIES, "qrels": QRELS}
    del files[missing]
    with pytest.raises(DatasetError, match=f"'local/tiny' has no {missing}"):
        IrdsDataset(register(**files))
    with pytest.raises(DatasetError, match=r"unknown ir_datasets id 'no/such': see `ir_datasets list`"):
        IrdsDataset("no/such")


def test_files_that_cannot_be_had_are_an_error_that_says_where_to_put_them(
    register: Callable[..., str], tmp_path: Path
) -> None:
    name = register(docs=DOCS, queries=QUERIES, qrels=QRELS)
    dataset = IrdsDataset(name)
    (tmp_path / "docs").unlink()
    with pytest.raises(DatasetError, match="IR_DATASETS_HOME"):
        dataset.load()


def test_the_chosen_fields_of_a_topic_are_the_query(register: Callable[..., str]) -> None:
    name = register(docs=DOCS, queries=QUERIES, qrels=QRELS)
    assert IrdsDataset(name, "text").load().queries == IrdsDataset(name).load().queries
    with pytest.raises(DatasetError, match=r"query 'q1' has no field 'title': it has query_id, text"):
        IrdsDataset(name, ["text", "title"]).load()
