"""Put documents into a collection of PostgreSQL, which is searched by ragtune search, serve, mcp and prompt.

    ragtune ingest FOLDER --collection docs

FOLDER holds Markdown, text, HTML, PDF or JSON lines, or is a BEIR corpus; several folders and files are allowed.
Without --dsn or $RAGTUNE_DSN, an embedded PostgreSQL keeps the collection. Repeat the command after an interruption or
a change: unchanged documents are skipped, changed ones replaced, and deleted ones removed. A file that cannot be read
is skipped, and listed with its reason at the end.

Datasets of ragtune run are ingested by their options, for retriever=postgres; conf/ingest.yaml lists all:

    ragtune ingest dataset=demo store=postgres

    dataset=demo|beir|irds          dataset.path=DIR ...
    store=postgres|memory           store.dsn=DSN (or RAGTUNE_DSN), else store.folder=DIR of the embedded server
    embedder=hashing|sentence_transformer|openai_compatible          embedder.model=... ...
    collection=NAME                 default: from the dataset's name and content
    chunk.method=tokens|sentences|paragraphs|markdown  chunk.max_tokens=256  chunk.overlap_tokens=0
    analyzer=NAME                   text analysis of lexical search: english, german, ..., cjk, none
    batch=250000                    characters per batch of embedding and writing
    prune=true                      delete documents that are not in the dataset

Exit code 0 done, 2 bad input, 1 a failing database, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from ragtune.canonical.ingestion import ingest
from ragtune.canonical.policies import ChunkPolicy
from ragtune.canonical.sources import DocumentFiles, chunk_file
from ragtune.canonical.types import Chunk, SourceDocument
from ragtune.cli import harness
from ragtune.cli.commands.options import add_store_options, open_store
from ragtune.cli.dispatch import refuse
from ragtune.core.arguments import check_count
from ragtune.core.errors import ConfigError

KEPT = "finished batches are kept: repeat the command to go on"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Folders and their options, or overrides of conf/ingest.yaml."""
    parser.add_argument("overrides", nargs="+", metavar="FOLDER", help="also files, or NAME=VALUE of a dataset")
    parser.add_argument("--collection", metavar="NAME", help="required with folders")
    parser.add_argument("--chunk-tokens", metavar="N", type=int, help="no chunk is longer; default: 256")
    parser.add_argument("--analyzer", metavar="NAME", help="of a new collection: english, german, ..., cjk, none")
    prune = "delete also what a corpus, or another folder of that name, put there"
    parser.add_argument("--prune", action="store_const", const=True, help=prune)
    add_store_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Ingest and print the counts."""
    if not any("=" not in word or Path(word).exists() for word in arguments.overrides):
        options = [name for name in vars(arguments) if name not in ("overrides", "command")]
        refuse(arguments, options, "with folders only; the options of datasets are NAME=VALUE")
        sys.stdout.write(f"{harness.part('prepare.ingest').run(arguments.overrides)}\n")
        return 0
    return _ingest_folders(arguments)


def _ingest_folders(arguments: argparse.Namespace) -> int:
    if arguments.collection is None:
        raise ConfigError("--collection NAME is missing: the collection that the folders go to")
    sources = DocumentFiles(arguments.overrides)
    tokens = 256 if arguments.chunk_tokens is None else check_count("--chunk-tokens", arguments.chunk_tokens, low=1)
    markdown, text = (ChunkPolicy(method=method, max_tokens=tokens) for method in ("markdown", "paragraphs"))

    def cut(document: SourceDocument) -> list[Chunk]:
        return chunk_file(document, markdown, text)

    end, every = ("\r", 0.2) if sys.stderr.isatty() else ("\n", 30.0)
    shown = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal shown
        if (now := time.monotonic()) - shown >= every:
            shown = now
            sys.stderr.write(f"{arguments.collection}: {done} of about {total} chunks{end}")
            sys.stderr.flush()

    with open_store(arguments, create=True) as store:
        kept = store.settings.get("sources", {})
        for name, root in sources.roots.items():
            if kept.get(name, root) != root and not arguments.prune:
                raise ConfigError(
                    f"{name} came from {kept[name]!r}, whose documents {root!r} would replace: say --prune"
                )
        store.save_settings({"sources": {**kept, **sources.roots}})
        counts = ingest(
            sources, store, cut, progress, sources.size, prune=lambda doc_id: sources.is_gone(doc_id, arguments.prune)
        )
    sys.stdout.write(f"{counts}\n")
    for title, reasons in (("noted", sources.notes), ("skipped", sources.skipped)):
        for name, reason in reasons.items():
            sys.stderr.write(f"{title}: {name}: {reason}\n")
    return 0
