"""Ingestion: documents, cut and embedded, into a collection in batches, of which each is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ragtune.canonical.embedding import embed
from ragtune.canonical.store.base import BaseStore
from ragtune.canonical.store.rows import document_digest
from ragtune.canonical.types import Chunk, Embedding, SourceDocument, UpsertCounts
from ragtune.core.arguments import check_count

BATCH = 250_000
"""Characters that are embedded and written at a time: some 300 chunks."""


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
    documents: Iterable[SourceDocument],
    store: BaseStore,
    cut: Callable[[SourceDocument], list[Chunk]],
    progress: Callable[[int, int], None] = lambda done, total: None,
    size: int = 0,
    batch: int = BATCH,
    prune: Callable[[str], bool] | None = None,
) -> IngestCounts:
    """Make a collection hold the documents. Unchanged ones are not embedded again; each batch is committed.

    Args:
        documents: any number; they are read as they are needed.
        store: the collection.
        cut: returns a document's chunks.
        progress: called with the chunks done, and the number expected in all, after each batch.
        size: characters of all documents, from which the number of chunks is expected.
        batch: characters that are embedded and written at a time, at least one document.
        prune: whether a stored document that is not among ``documents`` is deleted, by its id; None keeps all.

    Examples:
        >>> from ragtune.canonical.chunking import chunk
        >>> from ragtune.canonical.ingestion import ingest
        >>> from ragtune.canonical.store.memory import MemoryDatabase
        >>> from ragtune.embedders.hashing import HashingEmbedder
        >>> store = MemoryDatabase().open("docs", HashingEmbedder(dims=64), create=True)
        >>> ingest([SourceDocument(doc_id="tea", content="Green tea.")], store, chunk).upserts.inserted
        1
    """
    check_count("batch", batch, low=1)
    counts = IngestCounts(store.collection.name)
    seen: set[str] = set()

    def changed_batches() -> Iterator[tuple[Sequence[Chunk], Embedding]]:
        done = 0
        for group in _batches(documents, cut, batch):
            seen.update(group)
            if chunks := _changed(group, store, counts):
                yield chunks, embed(chunks, store.embedder)
            done += sum(len(chunk.content) for chunks in group.values() for chunk in chunks)
            progress(counts.chunks, max(counts.chunks, round(counts.chunks * size / max(1, done))))

    written = store.load(changed_batches())
    counts.upserts += written.model_copy(update={"documents": 0})
    progress(counts.chunks, counts.chunks)
    if prune is not None:
        counts.pruned = store.delete([one for one in store.doc_ids() if one not in seen and prune(one)])
    return counts


def _batches(
    documents: Iterable[SourceDocument], cut: Callable[[SourceDocument], list[Chunk]], most: int
) -> Iterator[dict[str, list[Chunk]]]:
    """Chunks by document, of documents that hold about ``most`` characters together."""
    group: dict[str, list[Chunk]] = {}
    size = 0
    for document in documents:
        chunks = cut(document)
        length = sum(len(chunk.content) for chunk in chunks)
        if group and size + length > most:
            yield group
            group, size = {}, 0
        group[document.doc_id] = chunks
        size += length
    if group:
        yield group


def _changed(group: dict[str, list[Chunk]], store: BaseStore, counts: IngestCounts) -> list[Chunk]:
    """The chunks of new and changed documents; documents that have lost their text are deleted."""
    known = store.digests([doc_id for doc_id in group if doc_id])
    changed: list[Chunk] = []
    emptied = []
    counts.documents += len(group)
    for doc_id, chunks in group.items():
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
