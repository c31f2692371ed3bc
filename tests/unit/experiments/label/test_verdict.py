"""The file beside the qrels, which advise reads: damaged, of another form, or about other orders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.label.decide import conclude
from experiments.label.labels import Label, Labels
from experiments.label.verdict import FORMAT, Verdict, orders_of, verdict_of, write_verdict
from ragtune.core.errors import ConfigError, DatasetError


def config(folder: Path, **options: Any) -> dict[str, Any]:
    parts = {key: {"depth": 100} for key in ("retriever", "signal", "fusion", "retrieval", "reranker")}
    return {"dataset": {"path": "d", "qrels": str(folder / "qrels.tsv")}, **parts, **options}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    labels = Labels(tmp_path)
    labels.add(Label(query_id="q", doc_id="a", grade=0))
    labels.write_qrels()
    found = conclude([1.0, 2.0] * 10, 20)
    verdict = Verdict(
        format=FORMAT, orders=orders_of(config(tmp_path)), dataset="d", labels=1, by_models={}, decision=found
    )
    write_verdict(tmp_path, verdict)
    return tmp_path


def test_what_was_written_is_read_and_other_judgments_have_no_verdict(folder: Path) -> None:
    found = verdict_of(config(folder))
    assert found is not None
    assert found.text == "The reranker helps: 1 label on 20 queries, confidence 100%."
    assert verdict_of({"dataset": {"qrels": None}}) is None
    (folder / "qrels.tsv").rename(folder / "mine.tsv")
    assert verdict_of({"dataset": {"qrels": str(folder / "mine.tsv")}}) is None


@pytest.mark.parametrize("content", ["", "{}"])
def test_a_damaged_file_is_named(content: str, folder: Path) -> None:
    (folder / "decision.json").write_text(content)
    with pytest.raises(DatasetError, match=r"decision\.json' is damaged: repeat ragtune label with --out"):
        verdict_of(config(folder))


def test_another_form_and_other_orders_are_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="another first stage or reranker"):
        verdict_of(config(folder, reranker={"scores": "other"}))
    file = folder / "decision.json"
    file.write_text(file.read_text().replace(FORMAT, "ragtune-label/9"))
    with pytest.raises(DatasetError, match=r"'ragtune-label/9': allowed is 'ragtune-label/1'"):
        verdict_of(config(folder))
