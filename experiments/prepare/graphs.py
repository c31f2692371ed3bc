"""Builds corpus graphs block by block, so that memory does not grow with the square of the collection."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.config.progress import Progress
from experiments.evaluate.files import naming
from ragtune.core.arguments import check_choice, check_count
from ragtune.core.errors import ConfigError
from ragtune.data.corpus import Corpus
from ragtune.data.docvectors import DocumentVectors
from ragtune.data.graph import MANIFEST, NEIGHBOURS, WEIGHTS, GraphManifest, create_arrays, nearest
from ragtune.data.text import analyzer_id
from ragtune.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtune.embedders.tfidf import TfidfEmbedder

_BLOCK_BYTES = 64 * 2**20

MINILM = "sentence-transformers/all-MiniLM-L6-v2"


Block = Callable[[int, int], NDArray[Any]]
"""Nearness of some documents to all N, shape (stop - start, N); only positive values make neighbours."""


@dataclass(frozen=True)
class Nearness:
    """How near the documents of a collection are to each other."""

    settings: dict[str, Any]
    library: str
    block: Block


def _tfidf(corpus: Corpus) -> Nearness:
    """Cosine of TF-IDF vectors, in [0, 1]."""
    rows = TfidfEmbedder(corpus).rows(corpus.doc_ids)
    columns = rows.T.tocsr()
    settings = {"analyzer": analyzer_id(), "sublinear_tf": True}
    library = f"scikit-learn {version('scikit-learn')}"
    return Nearness(settings, library, lambda start, stop: (rows[start:stop] @ columns).toarray())


def _dense(corpus: Corpus, model: str) -> Nearness:
    """Cosine of sentence embeddings, which ``retriever=dense`` shares through the cache folder."""
    embedder = SentenceTransformerEmbedder(model)
    vectors = DocumentVectors(corpus, embedder)
    vectors.prepare()
    library = f"sentence-transformers {version('sentence-transformers')}"
    return Nearness(
        {"embedder": embedder.name}, library, lambda start, stop: vectors.matrix[start:stop] @ vectors.matrix.T
    )


@dataclass(frozen=True)
class GraphCost:
    """The cost of a graph: documents, neighbours stored of each (``k``), neighbours in all, seconds, bytes on disk."""

    documents: int
    k: int
    neighbours: int
    seconds: float
    bytes: int


def build_graph(
    corpus: Corpus,
    out: Path,
    progress: Progress,
    kind: str = "tfidf",
    k: int = 16,
    model: str = MINILM,
) -> GraphCost:
    """Write the graph of a collection to the new folder ``out``, whole or not at all."""
    check_choice("graph kind", kind, ("tfidf", "dense"))
    check_count("graph k", k, low=1)
    if out.exists():
        raise ConfigError(f"{str(out)!r} exists: name a new folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    nearness = _tfidf(corpus) if kind == "tfidf" else _dense(corpus, model)
    wanted = GraphManifest(
        corpus=corpus.digest,
        documents=len(corpus),
        k=min(k, max(1, len(corpus) - 1)),
        kind=kind,
        settings=nearness.settings,
        library=f"ragtune {version('ragtune')}, {nearness.library}, numpy {np.__version__}",
    )
    with naming(out), tempfile.TemporaryDirectory(dir=out.parent, prefix=f".new-{out.name}-") as scratch:
        fresh = Path(scratch) / "graph"
        fresh.mkdir()
        _fill(fresh, nearness.block, wanted, progress)
        seconds = time.perf_counter() - started
        manifest = wanted.model_copy(update={"build_seconds": round(seconds, 3)})
        (fresh / MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
        fresh.rename(out)
    neighbours = np.load(out / NEIGHBOURS, mmap_mode="r")
    return GraphCost(
        documents=len(corpus),
        k=neighbours.shape[1],
        neighbours=int((neighbours >= 0).sum()),
        seconds=seconds,
        bytes=sum(file.stat().st_size for file in out.iterdir()),
    )


def _fill(folder: Path, block: Block, manifest: GraphManifest, progress: Progress) -> None:
    arrays = create_arrays(folder, manifest.documents, manifest.k)
    n = manifest.documents
    rows = max(1, _BLOCK_BYTES // (8 * n))
    for start in range(0, n, rows):
        stop = min(start + rows, n)
        for position, scores in enumerate(block(start, stop), start=start):
            arrays[NEIGHBOURS][position], arrays[WEIGHTS][position] = nearest(scores, position, manifest.k)
            progress(position + 1, n)
    for array in arrays.values():
        array.flush()
