"""Ingestion: a dataset's documents, cut and embedded, into a collection of a canonical store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.config.compose import composed, plain
from experiments.config.options import check_names
from experiments.config.progress import Progress
from experiments.publish.progress import progress_bar
from experiments.replay.build import load_dataset, validated
from experiments.replay.component import component
from ragtune.canonical.chunking import chunk
from ragtune.canonical.embedding import embed
from ragtune.canonical.normalization import normalize
from ragtune.canonical.policies import ChunkPolicy
from ragtune.canonical.retrievers.postgres import collection_name
from ragtune.canonical.store.base import BaseStore
from ragtune.canonical.store.rows import document_digest
from ragtune.canonical.types import Chunk, Embedding, UpsertCounts
from ragtune.core.arguments import check_count, check_flag
from ragtune.core.errors import ConfigError
from ragtune.data.corpus import Corpus, Document


@dataclass
class IngestCounts:
    """Counts of an ingestion."""

    collection: str
    documents: int = 0
    without_text: int = 0
    skipped: int = 0
    chunks: int = 0
    upserts: UpsertCounts = field(default_factory=UpsertCounts)
    pruned: int = 0

    def __str__(self) -> str:
        done = self.upserts
        return (
            f"{self.collection}: {self.documents} documents ({self.skipped} unchanged, {self.without_text} without "
            f"text, {self.pruned} pruned), {self.chunks} chunks: {done.inserted} inserted, {done.updated} updated, "
            f"{done.unchanged} unchanged, {done.deleted} deleted"
        )


def ingest(
    corpus: Corpus,
    store: BaseStore,
    policy: ChunkPolicy,
    progress: Progress = lambda done, total: None,
    batch: int = 256,
    prune: bool = False,
) -> IngestCounts:
    """Make the collection hold the corpus; unchanged documents are not embedded again."""
    check_count("batch", batch, low=1)
    counts = IngestCounts(store.collection.name, documents=len(corpus))
    documents = list(corpus)

    def changed_batches() -> Iterator[tuple[Sequence[Chunk], Embedding]]:
        for start in range(0, len(documents), batch):
            progress(start, len(documents))
            if chunks := _changed(documents[start : start + batch], store, policy, counts):
                yield chunks, embed(chunks, store.embedder)

    done = store.load(changed_batches())
    counts.upserts += done.model_copy(update={"documents": 0})
    progress(len(corpus), len(corpus))
    if prune:
        counts.pruned = store.delete([doc_id for doc_id in store.doc_ids() if doc_id not in corpus])
    return counts


def _changed(documents: Sequence[Document], store: BaseStore, policy: ChunkPolicy, counts: IngestCounts) -> list[Chunk]:
    """The chunks of new and changed documents; documents that have lost their text are deleted."""
    cut = {document.id: chunk(document.content, policy, **_facts(document)) for document in documents}
    known = store.digests([doc_id for doc_id in cut if doc_id])
    changed: list[Chunk] = []
    emptied = []
    for doc_id, chunks in cut.items():
        counts.chunks += len(chunks)
        if not chunks:
            counts.without_text += 1
            emptied += [doc_id] * (doc_id in known)
        elif known.get(doc_id) == document_digest(chunks):
            counts.skipped += 1
            counts.upserts += UpsertCounts(unchanged=len(chunks))
        else:
            changed += chunks
    if emptied:
        counts.upserts += UpsertCounts(deleted=sum(len(store.chunks(doc_id)) for doc_id in emptied))
        store.delete(emptied)
    return changed


def _facts(document: Document) -> dict[str, Any]:
    title = normalize(document.title).text
    return {"doc_id": document.id, "metadata": {"title": title} if title else {}}


def run(overrides: Sequence[str]) -> IngestCounts:
    """Ingest the configured dataset into the configured store."""
    config = plain(composed(overrides, "ingest", "ragtune ingest"))
    _check_options(config)
    policy = validated(ChunkPolicy, config["chunk"], "chunk")
    dataset = load_dataset(config)
    name = config["collection"] or collection_name(dataset.name, dataset.corpus)
    embedder = component(config, "embedder")
    with component(config, "store") as database, progress_bar(f"ingesting {dataset.name}", enabled=True) as update:
        store = database.open(name, embedder, create=True, analyzer=config["analyzer"])
        return ingest(dataset.corpus, store, policy, update, config["batch"], config["prune"])


def _check_options(config: Mapping[str, Any]) -> None:
    check_names(list(config), "ingest")
    check_flag("prune", config["prune"])
    for option in ("collection", "analyzer"):
        if not isinstance(config[option], str | None):
            raise ConfigError(f"{option}={config[option]!r}: allowed is a name")
    check_count("batch", config["batch"], low=1)
