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

from ragtune.cli import harness
from ragtune.cli.commands.options import add_store_options

_CHUNK_TOKENS = 256
_OF_FOLDERS = ("collection", "chunk_tokens", "analyzer", "prune", "dsn", "data_dir", "embedder", "embedder_model")
KEPT = "finished batches are kept: repeat the command to go on"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Folders and their options, or overrides of conf/ingest.yaml."""
    parser.add_argument("overrides", nargs="+", metavar="FOLDER", help="also files, or NAME=VALUE of a dataset")
    parser.add_argument("--collection", metavar="NAME", help="required with folders")
    parser.add_argument("--chunk-tokens", metavar="N", type=int, default=_CHUNK_TOKENS, help="no chunk is longer")
    parser.add_argument("--analyzer", metavar="NAME", help="of a new collection: english, german, ..., cjk, none")
    parser.add_argument("--prune", action="store_true", help="delete what is not in a corpus with ids of its own, too")
    add_store_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Ingest and print the counts."""
    if not any("=" not in word or Path(word).exists() for word in arguments.overrides):
        _refuse_options_of_folders(arguments)
        sys.stdout.write(f"{harness.part('prepare.ingest').run(arguments.overrides)}\n")
        return 0
    return _ingest_folders(arguments)


def _refuse_options_of_folders(arguments: argparse.Namespace) -> None:
    from ragtune.core.errors import ConfigError

    for name in _OF_FOLDERS:
        if getattr(arguments, name) not in (None, False, _CHUNK_TOKENS):
            raise ConfigError(f"--{name.replace('_', '-')}: allowed with folders only; a dataset takes NAME=VALUE")


def _ingest_folders(arguments: argparse.Namespace) -> int:
    from ragtune.canonical.chunking import chunk
    from ragtune.canonical.ingestion import ingest
    from ragtune.canonical.policies import ChunkPolicy
    from ragtune.canonical.sources import MARKDOWN, DocumentFiles
    from ragtune.canonical.types import Chunk, SourceDocument
    from ragtune.cli.commands.options import open_store
    from ragtune.core.arguments import check_count
    from ragtune.core.errors import ConfigError

    if arguments.collection is None:
        raise ConfigError("--collection NAME is missing: the collection that the folders go to")
    sources = DocumentFiles(arguments.overrides)
    tokens = check_count("--chunk-tokens", arguments.chunk_tokens, low=1)
    markdown, text = (ChunkPolicy(method=method, max_tokens=tokens) for method in ("markdown", "paragraphs"))

    def cut(document: SourceDocument) -> list[Chunk]:
        return chunk(document, markdown if document.doc_id.lower().endswith(MARKDOWN) else text)

    def is_gone(doc_id: str) -> bool:
        """Whether a document that was not read has gone from the folders; a file that was skipped keeps its chunks."""
        if doc_id.partition("#")[0] in {name.partition(":")[0] for name in sources.skipped}:
            return False
        return arguments.prune if sources.prefixes is None else doc_id.startswith(sources.prefixes)

    end, every = ("\r", 0.2) if sys.stderr.isatty() else ("\n", 30.0)
    shown = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal shown
        if (now := time.monotonic()) - shown >= every:
            shown = now
            sys.stderr.write(f"{arguments.collection}: {done} of about {total} chunks{end}")
            sys.stderr.flush()

    with open_store(arguments, create=True) as store:
        counts = ingest(sources, store, cut, progress, sources.size, prune=is_gone)
    sys.stdout.write(f"{counts}\n")
    for title, reasons in (("noted", sources.notes), ("skipped", sources.skipped)):
        for name, reason in reasons.items():
            sys.stderr.write(f"{title}: {name}: {reason}\n")
    return 0
