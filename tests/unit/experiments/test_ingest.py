"""Ingestion, on the store in memory; ``tests/e2e/test_ingest.py`` has the command and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from experiments.prepare.ingest import ingest
from ragtune.canonical.policies import ChunkPolicy
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.canonical.types import StoreCounts
from ragtune.core.errors import ConfigError, InputError
from ragtune.data.corpus import Corpus, Document
from ragtune.embedders.hashing import HashingEmbedder

POLICY = ChunkPolicy(max_tokens=8)


@pytest.fixture
def store() -> Any:
    return MemoryDatabase().open("tea", HashingEmbedder(), create=True)


def make_corpus(*documents: tuple[str, str, str]) -> Corpus:
    return Corpus(Document(id=doc_id, title=title, text=text) for doc_id, title, text in documents)


def test_progress_is_told_in_documents_from_none_to_all(store: Any, corpus: Corpus) -> None:
    told: list[tuple[int, int]] = []
    ingest(corpus, store, POLICY, lambda done, total: told.append((done, total)), batch=5)
    assert told == [(0, 12), (5, 12), (10, 12), (12, 12)]


def test_batches_are_asked_for_one_by_one(store: Any, corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded: no batch is made before the one before it is written."""
    load, seen = store.load, []

    def watched(stream: Iterator[Any]) -> Any:
        def one_by_one() -> Iterator[Any]:
            for batch in stream:
                seen.append((len({chunk.doc_id for chunk in batch[0]}), store.counts().documents))
                yield batch

        return load(one_by_one())

    monkeypatch.setattr(store, "load", watched)
    ingest(corpus, store, POLICY, batch=4)
    assert seen == [(4, 0), (4, 4), (3, 8)]


def test_titles_are_part_of_the_text_and_metadata(store: Any) -> None:
    ingest(make_corpus(("x", "Green\x00 tea", "Hot water."), ("y", "", "No title.")), store, POLICY)
    assert store.chunks("x")[0].content == "Green tea Hot water."
    assert store.chunks("x")[0].metadata == {"title": "Green tea"}
    assert store.chunks("y")[0].metadata == {}


def test_a_title_that_changes_is_an_update(store: Any) -> None:
    ingest(make_corpus(("x", "Tea", "time")), store, POLICY)
    counts = ingest(make_corpus(("x", "", "Tea time")), store, POLICY)
    assert (counts.skipped, counts.upserts.updated) == (0, 1)


def test_an_emptied_document_is_deleted_with_its_chunks(store: Any) -> None:
    ingest(make_corpus(("x", "", "tea " * 20), ("y", "", "tea")), store, POLICY)
    counts = ingest(make_corpus(("x", "", " \t"), ("y", "", "tea")), store, POLICY)
    assert (counts.without_text, counts.skipped, counts.upserts.deleted) == (1, 1, 3)
    assert store.counts() == StoreCounts(documents=1, chunks=1)


def test_documents_of_others_stay_unless_they_are_to_be_pruned(store: Any) -> None:
    ingest(make_corpus(("x", "", "tea")), store, POLICY)
    ingest(make_corpus(("y", "", "tea")), store, POLICY)
    assert store.doc_ids() == ["x", "y"]
    assert ingest(make_corpus(("y", "", "tea")), store, POLICY, prune=True).pruned == 1
    assert store.doc_ids() == ["y"]


def test_a_document_that_cannot_be_stored_is_named_and_batches_before_it_stay(store: Any) -> None:
    with pytest.raises(InputError, match="doc_id"):
        ingest(make_corpus(("x", "", "tea"), ("y" * 2000, "", "tea")), store, POLICY, batch=1)
    assert store.doc_ids() == ["x"]
    with pytest.raises(InputError, match="doc_id"):
        ingest(make_corpus(("", "", "tea")), store, POLICY)


def test_a_batch_holds_at_least_one_document(store: Any, corpus: Corpus) -> None:
    with pytest.raises(ConfigError, match="batch=0"):
        ingest(corpus, store, POLICY, batch=0)
