"""Ingestion: a dataset's documents, cut and embedded, into a collection of a canonical store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from experiments.config.compose import composed, plain
from experiments.config.options import check_names
from experiments.config.progress import Progress
from experiments.publish.progress import progress_bar
from experiments.replay.build import load_dataset, validated
from experiments.replay.component import component
from ragtune.canonical.chunking import chunk
from ragtune.canonical.ingestion import BATCH, IngestCounts
from ragtune.canonical.ingestion import ingest as ingest_documents
from ragtune.canonical.policies import ChunkPolicy
from ragtune.canonical.retrievers.postgres import collection_name
from ragtune.canonical.sources import source_of
from ragtune.canonical.store.base import BaseStore
from ragtune.core.arguments import check_count, check_flag
from ragtune.core.errors import ConfigError
from ragtune.data.corpus import Corpus


def ingest(
    corpus: Corpus,
    store: BaseStore,
    policy: ChunkPolicy,
    progress: Progress = lambda done, total: None,
    batch: int = BATCH,
    prune: bool = False,
) -> IngestCounts:
    """Make the collection hold the corpus."""
    cut, documents = partial(chunk, policy=policy), map(source_of, corpus)
    size = sum(len(document.content) for document in corpus)
    return ingest_documents(documents, store, cut, progress, size, batch, (lambda _: True) if prune else None)


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
