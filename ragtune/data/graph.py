"""Corpus graphs: the nearest neighbours of every document, kept on disk and read without loading them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragtune.core.arguments import check_count
from ragtune.core.errors import ConfigError
from ragtune.core.plain import quoted
from ragtune.core.pool.roster import Roster
from ragtune.data.corpus import Corpus
from ragtune.data.files.textfile import read_json
from ragtune.data.topk import best_positions

MANIFEST, NEIGHBOURS, WEIGHTS = "graph.json", "neighbours.npy", "weights.npy"
"""Files of a graph's folder."""

NOBODY = -1
"""What fills the row of a document with fewer than K neighbours; its weight is 0."""

_HIGHEST = 1 + 1e-4
"""Highest weight allowed: a cosine of float32 vectors may be rounded above 1."""

_CHECKED_AT_ONCE = 2**20
"""Entries of a mapped array that are looked at together."""


class GraphManifest(BaseModel):
    """What a graph says of itself, in ``graph.json``.

    Attributes:
        corpus: digest of the collection, see :attr:`ragtune.data.corpus.Corpus.digest`.
        documents: N, documents of the collection.
        k: K, neighbours kept of each.
        kind: kind of nearness, e.g. ``tfidf``, ``bm25``, ``dense``.
        settings: settings of that nearness.
        build_seconds: seconds that building took.
        library: versions of the libraries that built it.
    """

    corpus: str
    documents: int = Field(ge=1)
    k: int = Field(ge=1)
    kind: str
    settings: dict[str, Any] = Field(default_factory=dict)
    build_seconds: float = Field(default=0.0, ge=0.0)
    library: str = ""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    @classmethod
    def read(cls, folder: Path) -> GraphManifest:
        """The manifest of a graph's folder.

        Raises:
            ConfigError: if the folder holds no graph, or a damaged one.
        """
        file = folder / MANIFEST
        if not file.is_file():
            raise ConfigError(f"{str(folder)!r} is no corpus graph (no {MANIFEST}): build one, ragtune graph")
        try:
            return cls.model_validate(read_json(file.read_bytes()))
        except ValidationError as error:
            what = error.errors()[0]["msg"]
        except ValueError as error:
            what = str(error)
        raise ConfigError(f"damaged corpus graph {str(folder)!r}: {what}")


class CorpusGraph:
    """The k nearest neighbours of every document of a collection (MacAvaney, Tonellotto and Macdonald, CIKM 2022).

    Args:
        corpus: the collection.
        neighbours: shape (N, K), corpus positions, nearest first, the document itself excluded, equal weights by
            position, :data:`NOBODY` where there are fewer.
        weights: shape (N, K), in (0, 1], falling along each row; the larger, the nearer.
        k: neighbours used, at most K; None for K.
    """

    def __init__(
        self, corpus: Corpus, neighbours: NDArray[np.int32], weights: NDArray[np.float32], k: int | None = None
    ) -> None:
        self._corpus = corpus
        self._neighbours = neighbours
        self._weights = weights
        self.k = neighbours.shape[1] if k is None else k

    @classmethod
    def open(cls, path: str | Path, corpus: Corpus, k: int | None = None) -> CorpusGraph:
        """The graph in a folder, memory-mapped; read through once, in blocks, to check what it holds.

        Args:
            path: the folder.
            corpus: the collection.
            k: neighbours used; a graph that keeps all N - 1 serves any number.

        Raises:
            ConfigError: if the folder is no graph, or was built from another corpus (naming both hashes), or holds
                fewer than ``k`` neighbours a document, or positions or weights that no graph has.
        """
        folder = Path(path)
        manifest = GraphManifest.read(folder)
        if manifest.corpus != corpus.digest:
            raise ConfigError(
                f"corpus graph {str(folder)!r} was built from another corpus: its hash is "
                f"{quoted(manifest.corpus)[1:-1]}, this collection's is {corpus.digest}; "
                "build its own by ragtune graph"
            )
        used = manifest.k if k is None else check_count("graph k", k, low=1)
        if used > manifest.k and manifest.k < len(corpus) - 1:
            raise ConfigError(f"graph k={k!r}: corpus graph {str(folder)!r} holds {manifest.k} neighbours a document")
        shape = (len(corpus), manifest.k)
        neighbours = _mapped(folder / NEIGHBOURS, shape, np.dtype(np.int32))
        weights = _mapped(folder / WEIGHTS, shape, np.dtype(np.float32))
        rows = max(1, _CHECKED_AT_ONCE // manifest.k)
        for start in range(0, len(corpus), rows):
            _check_rows(folder, start, neighbours[start : start + rows], weights[start : start + rows], len(corpus))
        return cls(corpus, neighbours, weights, min(used, manifest.k))

    @property
    def doc_ids(self) -> Sequence[str]:
        """Ids of the documents by their positions in the corpus."""
        return self._corpus.doc_ids

    def neighbours(self, doc_id: str) -> list[str]:
        """Ids of a document's neighbours, nearest first.

        Raises:
            DatasetError: if the corpus does not hold the document.
        """
        return self.edges(doc_id)[0]

    def weighted_neighbours(self, doc_id: str) -> list[tuple[str, float]]:
        """Ids of a document's neighbours with their weights, nearest first; errors as in :meth:`neighbours`."""
        return list(zip(*self.edges(doc_id), strict=True))

    def edges(self, doc_id: str) -> tuple[list[str], list[float]]:
        """Ids of a document's neighbours, nearest first, and their weights; errors as in :meth:`neighbours`."""
        doc_ids = self._corpus.doc_ids
        row, weights = self.row(doc_id)
        return [doc_ids[i] for i in row], weights

    def row(self, doc_id: str) -> tuple[list[int], list[float]]:
        """Corpus positions of a document's neighbours, nearest first, and their weights; errors as in
        :meth:`neighbours`.
        """
        position = self._corpus.position(doc_id)
        row, weights = self._neighbours[position, : self.k].tolist(), self._weights[position, : self.k].tolist()
        held = row.index(NOBODY) if NOBODY in row else self.k
        return row[:held], weights[:held]

    def positions(self, roster: Roster) -> list[int]:
        """Positions of a pool's documents in the corpus, for reading only; errors as in :meth:`neighbours`."""
        return roster.of_ids(self._corpus.positions)

    def rows(self, positions: Sequence[int]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Corpus positions of the neighbours of the documents at m positions in the corpus, and their weights, each of
        shape (m, k), nearest first, :data:`NOBODY` where there are fewer.
        """
        neighbours, weights = self._neighbours.take(positions, axis=0), self._weights.take(positions, axis=0)
        return neighbours[:, : self.k], weights[:, : self.k]


def nearest(scores: NDArray[np.floating[Any]], position: int, k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """A graph's row out of a document's nearness to all N documents: neighbours and weights, each of shape (k,).

    Only positive scores count; equal ones (as float32, which is what is kept) go by corpus position.
    """
    row = scores.astype(np.float32)
    row[position] = 0.0
    best = best_positions(row, np.arange(len(row)), k, above=0.0)
    neighbours, weights = np.full(k, NOBODY, dtype=np.int32), np.zeros(k, dtype=np.float32)
    neighbours[: len(best)], weights[: len(best)] = best, row[best]
    return neighbours, weights


def create_arrays(folder: Path, documents: int, k: int) -> Mapping[str, np.memmap[Any, Any]]:
    """Empty memory-mapped arrays for a new graph, by file name, to be filled row by row and flushed."""
    kinds = {NEIGHBOURS: np.int32, WEIGHTS: np.float32}
    return {
        name: np.lib.format.open_memmap(folder / name, mode="w+", dtype=kind, shape=(documents, k))
        for name, kind in kinds.items()
    }


def _mapped(file: Path, shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
    try:
        # Looked at as a plain array: indexing a memmap costs ten times as much, and each row is asked for by itself.
        array: NDArray[Any] = np.asarray(np.load(file, mmap_mode="r", allow_pickle=False))
    except Exception as error:  # what NumPy's reading of a damaged header ends in is anyone's guess
        reason = quoted(" ".join(str(error).split()))[1:-1]
        raise ConfigError(f"damaged corpus graph: {str(file)!r} cannot be read ({reason})") from None
    if array.shape != shape or array.dtype != dtype:
        raise ConfigError(
            f"damaged corpus graph: {str(file)!r} is of shape {array.shape} and type {array.dtype}, expected is "
            f"{shape} and {dtype}"
        )
    return array


def _check_rows(folder: Path, start: int, neighbours: NDArray[Any], weights: NDArray[Any], documents: int) -> None:
    """Check the rows from ``start`` on against what :func:`nearest` writes."""
    nobody = neighbours == NOBODY
    own = neighbours == np.arange(start, start + len(neighbours))[:, None]
    strange = ((neighbours < 0) & ~nobody) | (neighbours >= documents) | own
    allowed = f"the position of another document, 0 to {documents - 1}, or {NOBODY} for no neighbour"
    _refuse_first(folder / NEIGHBOURS, start, neighbours, strange, allowed)
    # Negated, so that NaN is refused.
    out_of_range = ~((weights > 0) & (weights <= _HIGHEST)) & ~nobody
    _refuse_first(folder / WEIGHTS, start, weights, out_of_range, "a number above 0, at most 1")
    _refuse_first(folder / WEIGHTS, start, weights, nobody & (weights != 0), "0 where there is no neighbour")
    rising = np.diff(weights, axis=1, prepend=np.float32(_HIGHEST)) > 0
    _refuse_first(folder / WEIGHTS, start, weights, rising, "at most the weight before it")


def _refuse_first(file: Path, start: int, values: NDArray[Any], is_wrong: NDArray[np.bool_], allowed: str) -> None:
    if is_wrong.any():
        row, column = np.argwhere(is_wrong)[0].tolist()
        raise ConfigError(
            f"damaged corpus graph: {str(file)!r} holds {values[row, column]!s} in row {start + row}, column "
            f"{column}: allowed is {allowed}"
        )
