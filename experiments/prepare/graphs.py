"""Builds corpus graphs block by block, so that memory does not grow with the square of the collection."""

from __future__ import annotations

import shutil
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
from ragtune.data.caches.diskcache import sha256_of
from ragtune.data.corpus import Corpus
from ragtune.data.docvectors import DocumentVectors
from ragtune.data.graph import MANIFEST, NEIGHBOURS, WEIGHTS, CorpusGraph, GraphManifest, create_arrays, nearest
from ragtune.data.text import analyzer_id
from ragtune.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtune.embedders.tfidf import TfidfEmbedder

_BLOCK_BYTES = 64 * 2**20
"""Bytes of scores that are held at once."""

GRAPH_FILES = {MANIFEST, NEIGHBOURS, WEIGHTS}

MINILM = "sentence-transformers/all-MiniLM-L6-v2"


Block = Callable[[int, int], NDArray[Any]]
"""Nearness of some documents to all N, shape (stop - start, N); only positive values make neighbours."""


@dataclass(frozen=True)
class Nearness:
    """How near the documents of a collection are to each other, once it is prepared."""

    settings: dict[str, Any]
    library: str
    prepare: Callable[[], Block]


def _tfidf(corpus: Corpus) -> Nearness:
    """Cosine of TF-IDF vectors, in [0, 1]."""

    def prepare() -> Block:
        rows = TfidfEmbedder(corpus).rows(corpus.doc_ids)
        columns = rows.T.tocsr()
        return lambda start, stop: (rows[start:stop] @ columns).toarray()

    settings = {"analyzer": analyzer_id(), "sublinear_tf": True}
    return Nearness(settings, f"scikit-learn {version('scikit-learn')}", prepare)


def _dense(corpus: Corpus, model: str) -> Nearness:
    """Cosine of sentence embeddings, which ``retriever=dense`` shares through the cache folder."""
    embedder = SentenceTransformerEmbedder(model)
    vectors = DocumentVectors(corpus, embedder)

    def prepare() -> Block:
        vectors.prepare()
        return lambda start, stop: vectors.matrix[start:stop] @ vectors.matrix.T

    return Nearness({"embedder": embedder.name}, f"sentence-transformers {version('sentence-transformers')}", prepare)


def _given(corpus: Corpus, file: Path | None) -> Nearness:
    """Cosine of vectors from a NumPy file, shape (N, d); a row of zeros marks a document without neighbours."""
    if file is None:
        raise ConfigError("graph kind 'vectors': name their file, --vectors FILE")
    try:
        raw: NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ConfigError(f"--vectors {file}: cannot be read: {' '.join(str(error).split())}") from None
    shape, kind = getattr(raw, "shape", None), getattr(getattr(raw, "dtype", None), "kind", "")
    if shape is None or len(shape) != 2 or shape[0] != len(corpus) or not shape[1] or kind not in "fiu":
        raise ConfigError(f"--vectors {file}: shape {shape}: allowed is numbers, ({len(corpus)}, d)")

    def prepare() -> Block:
        lengths = np.sqrt(np.einsum("ij,ij->i", raw, raw, dtype=np.float64))[:, None]
        if not (finite := np.isfinite(lengths)).all():
            raise ConfigError(f"--vectors {file}: row {int(np.argmin(finite))} holds a value that is no finite number")
        vectors = np.empty(raw.shape, dtype=np.float32)
        np.divide(raw, np.where(lengths > 0, lengths, 1.0), out=vectors, casting="same_kind")
        return lambda start, stop: vectors[start:stop] @ vectors.T

    return Nearness({"vectors": sha256_of(file)}, "", prepare)


@dataclass(frozen=True)
class GraphCost:
    """The cost of a graph: documents, neighbours stored of each (``k``), neighbours in all, seconds, bytes on disk."""

    documents: int
    k: int
    neighbours: int
    seconds: float
    bytes: int
    built: bool


def build_graph(
    corpus: Corpus,
    out: Path,
    progress: Progress,
    kind: str = "tfidf",
    k: int = 16,
    model: str = MINILM,
    vectors: Path | None = None,
    force: bool = False,
) -> GraphCost:
    """Write the graph of a collection to the folder ``out``, whole or not at all."""
    check_choice("graph kind", kind, ("tfidf", "dense", "vectors"))
    check_count("graph k", k, low=1)
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.exists() and not (out.is_dir() and ({file.name for file in out.iterdir()} <= GRAPH_FILES)):
        raise ConfigError(f"{str(out)!r} exists and is no corpus graph: name a new folder")
    started = time.perf_counter()
    if kind == "vectors":
        nearness = _given(corpus, vectors)
    else:
        nearness = _tfidf(corpus) if kind == "tfidf" else _dense(corpus, model)
    wanted = GraphManifest(
        corpus=corpus.digest,
        documents=len(corpus),
        k=min(k, max(1, len(corpus) - 1)),
        kind=kind,
        settings=nearness.settings,
        library=", ".join(filter(None, (f"ragtune {version('ragtune')}", nearness.library, f"numpy {np.__version__}"))),
    )
    if not force and _is_kept(out, corpus, wanted):
        return _cost(out, corpus, time.perf_counter() - started, built=False)
    with naming(out), tempfile.TemporaryDirectory(dir=out.parent, prefix=f".new-{out.name}-") as scratch:
        fresh = Path(scratch) / "graph"
        fresh.mkdir()
        _fill(fresh, nearness.prepare(), wanted, progress)
        seconds = time.perf_counter() - started
        manifest = wanted.model_copy(update={"build_seconds": round(seconds, 3)})
        (fresh / MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
        if out.is_dir():
            shutil.rmtree(out)
        fresh.rename(out)
    return _cost(out, corpus, seconds, built=True)


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


def _is_kept(out: Path, corpus: Corpus, wanted: GraphManifest) -> bool:
    if not (out / MANIFEST).is_file():
        return False
    try:
        there = GraphManifest.read(out)
    except ConfigError:  # damaged
        return False
    same = (there.corpus, there.kind, there.settings) == (wanted.corpus, wanted.kind, wanted.settings)
    if not same or there.k < wanted.k:
        raise ConfigError(
            f"{str(out)!r} holds another graph ({there.kind}, k={there.k}, corpus {there.corpus}; wanted is "
            f"{wanted.kind}, k={wanted.k}, corpus {wanted.corpus}): name another folder, or give --force"
        )
    try:
        CorpusGraph.open(out, corpus)
    except ConfigError:
        return False
    return True


def _cost(out: Path, corpus: Corpus, seconds: float, *, built: bool) -> GraphCost:
    neighbours = np.load(out / NEIGHBOURS, mmap_mode="r")
    return GraphCost(
        documents=len(corpus),
        k=neighbours.shape[1],
        neighbours=int((neighbours >= 0).sum()),
        seconds=seconds,
        bytes=sum(file.stat().st_size for file in out.iterdir()),
        built=built,
    )
