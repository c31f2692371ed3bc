"""Ingestion: a dataset's documents, cut and embedded, into a collection of a canonical store."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from experiments.config.compose import composed, plain
from experiments.config.options import check_names
from experiments.publish.progress import progress_bar
from experiments.replay.build import load_dataset, validated
from experiments.replay.component import component
from ragtune.canonical.chunking import chunk
from ragtune.canonical.ingestion import IngestCounts, ingest
from ragtune.canonical.policies import ChunkPolicy
from ragtune.canonical.retrievers.postgres import collection_name
from ragtune.canonical.sources import source_of
from ragtune.core.arguments import check_flag


def run(overrides: Sequence[str]) -> IngestCounts:
    """Ingest the configured dataset into the configured store."""
    config = plain(composed(overrides, "ingest", "ragtune ingest"))
    check_names(list(config), "ingest")
    check_flag("prune", config["prune"])
    analyzer = None if config["analyzer"] is None else str(config["analyzer"])
    cut = partial(chunk, policy=validated(ChunkPolicy, config["chunk"], "chunk"))
    dataset = load_dataset(config)
    corpus = dataset.corpus
    name = config["collection"] or collection_name(dataset.name, corpus)
    embedder = component(config, "embedder")
    prune = (lambda _: True) if config["prune"] else None
    with component(config, "store") as database, progress_bar(f"ingesting {dataset.name}", enabled=True) as update:
        store = database.open(name, embedder, create=True, analyzer=analyzer)
        size = sum(len(document.content) for document in corpus)
        return ingest(map(source_of, corpus), store, cut, update, size, config["batch"], prune)
