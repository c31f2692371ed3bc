"""Builds corpus graphs block by block, so that memory does not grow with the square of the collection."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from experiments.config.progress import Progress
from experiments.evaluate.files import naming
from experiments.publish.folders import LOCK, locked
from ragtune.core.arguments import check_choice, check_count
from ragtune.core.errors import ConfigError
from ragtune.data.caches.diskcache import file_digests
from ragtune.data.corpus import Corpus
from ragtune.data.docvectors import DocumentVectors
from ragtune.data.graph import MANIFEST, NEIGHBOURS, WEIGHTS, CorpusGraph, GraphManifest, create_arrays, nearest
from ragtune.data.text import analyzer_id
from ragtune.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtune.embedders.tfidf import TfidfEmbedder

_BLOCK_BYTES = 64 * 2**20
"""Bytes of scores that are held at once."""

_ROWS = 2**14
"""Vectors that are normalised at once."""

MINILM = "sentence-transformers/all-MiniLM-L6-v2"


class Nearness(Protocol):
    """How near the documents of a collection are to each other. The constructor is cheap, ``prepare`` is not."""

    settings: dict[str, Any]
    library: str

    def prepare(self, scratch: Path) -> None:
        """Index the collection, with temporary files in the folder ``scratch``."""
        ...

    def block(self, start: int, stop: int) -> NDArray[Any]:
        """Nearness of some documents to all N, shape (stop - start, N); only positive values make neighbours."""
        ...


class TfidfNearness:
    """Cosine of TF-IDF vectors, in [0, 1]."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self.settings: dict[str, Any] = {"analyzer": analyzer_id(), "sublinear_tf": True}
        self.library = f"scikit-learn {version('scikit-learn')}"

    def prepare(self, scratch: Path) -> None:
        """Weight the terms."""
        self._rows = TfidfEmbedder(self._corpus).rows(self._corpus.doc_ids)
        self._columns = self._rows.T.tocsr()

    def block(self, start: int, stop: int) -> NDArray[Any]:
        scores: NDArray[Any] = (self._rows[start:stop] @ self._columns).toarray()
        return scores


class DenseNearness:
    """Cosine of sentence embeddings, which ``retriever=dense`` shares through the cache folder."""

    def __init__(self, corpus: Corpus, model: str) -> None:
        embedder = SentenceTransformerEmbedder(model)
        self._vectors = DocumentVectors(corpus, embedder)
        self.settings: dict[str, Any] = {"embedder": embedder.name}
        self.library = f"sentence-transformers {version('sentence-transformers')}"

    def prepare(self, scratch: Path) -> None:
        """Embed the texts, which takes most of the time."""
        self._vectors.prepare()

    def block(self, start: int, stop: int) -> NDArray[Any]:
        return self._vectors.matrix[start:stop] @ self._vectors.matrix.T


class VectorNearness:
    """Cosine of vectors from a file, such as those of an index."""

    def __init__(self, corpus: Corpus, file: Path | None) -> None:
        if file is None:
            raise ConfigError("graph kind 'vectors': name their file, --vectors FILE")
        try:
            self._raw: NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise ConfigError(f"--vectors {file}: cannot be read: {' '.join(str(error).split())}") from None
        shape, kind = getattr(self._raw, "shape", None), getattr(getattr(self._raw, "dtype", None), "kind", "")
        if shape is None or len(shape) != 2 or shape[0] != len(corpus) or not shape[1] or kind not in "fiu":
            raise ConfigError(f"--vectors {file}: shape {shape}: allowed is numbers, ({len(corpus)}, d)")
        self._file = file
        self.settings: dict[str, Any] = {"vectors": file_digests([file])[0]}
        self.library = ""

    def prepare(self, scratch: Path) -> None:
        """Normalise the rows."""
        n, d = self._raw.shape
        self._vectors = np.lib.format.open_memmap(scratch / "vectors.npy", mode="w+", dtype=np.float32, shape=(n, d))
        for start in range(0, n, _ROWS):
            rows = np.asarray(self._raw[start : start + _ROWS], dtype=np.float64)
            if not (finite := np.isfinite(rows).all(axis=1)).all():
                row = start + int(np.argmin(finite))
                raise ConfigError(f"--vectors {self._file}: row {row} holds a value that is no finite number")
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            self._vectors[start : start + len(rows)] = rows / np.where(lengths > 0, lengths, 1.0)

    def block(self, start: int, stop: int) -> NDArray[Any]:
        scores: NDArray[Any] = self._vectors[start:stop] @ self._vectors.T
        return scores


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
    check_choice("graph kind", kind, KINDS)
    check_count("graph k", k, low=1)
    out.parent.mkdir(parents=True, exist_ok=True)
    _require_replaceable(out)
    started = time.perf_counter()
    nearness = KINDS[kind](corpus, model, vectors)
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
    with naming(out), _scratch_beside(out) as scratch:
        nearness.prepare(scratch)
        fresh = scratch / "graph"
        fresh.mkdir()
        _fill(fresh, nearness, wanted, progress)
        seconds = time.perf_counter() - started
        manifest = wanted.model_copy(update={"build_seconds": round(seconds, 3)})
        (fresh / MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
        if out.is_dir():
            shutil.rmtree(out)
        fresh.rename(out)
    return _cost(out, corpus, seconds, built=True)


@contextmanager
def _scratch_beside(out: Path) -> Iterator[Path]:
    """Provide an empty folder ``.new-NAME`` beside ``out``, kept to this process; a killed build may have left one."""
    folder = out.parent / f".new-{out.name}"
    folder.mkdir(exist_ok=True)
    with locked(folder, "--out"):
        for stale in folder.iterdir():
            if stale.is_dir():
                shutil.rmtree(stale)
            elif stale.name != LOCK:
                stale.unlink()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _fill(folder: Path, nearness: Nearness, manifest: GraphManifest, progress: Progress) -> None:
    arrays = create_arrays(folder, manifest.documents, manifest.k)
    n = manifest.documents
    rows = max(1, _BLOCK_BYTES // (8 * n))
    for start in range(0, n, rows):
        stop = min(start + rows, n)
        for position, scores in enumerate(nearness.block(start, stop), start=start):
            arrays[NEIGHBOURS][position], arrays[WEIGHTS][position] = nearest(scores, position, manifest.k)
            progress(position + 1, n)
    for array in arrays.values():
        array.flush()


def _require_replaceable(out: Path) -> None:
    if out.exists() and not (out.is_dir() and ({file.name for file in out.iterdir()} <= GRAPH_FILES)):
        raise ConfigError(f"{str(out)!r} exists and is no corpus graph: name a new folder")


def _is_kept(out: Path, corpus: Corpus, wanted: GraphManifest) -> bool:
    """Whether the graph in ``out`` serves as well."""
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


GRAPH_FILES = {MANIFEST, NEIGHBOURS, WEIGHTS}

KINDS: Mapping[str, Callable[[Corpus, str, Path | None], Nearness]] = {
    "tfidf": lambda corpus, model, vectors: TfidfNearness(corpus),
    "dense": lambda corpus, model, vectors: DenseNearness(corpus, model),
    "vectors": lambda corpus, model, vectors: VectorNearness(corpus, vectors),
}
