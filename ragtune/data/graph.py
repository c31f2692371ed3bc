"""Corpus graphs: the nearest neighbours of every document, memory-mapped."""

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
from ragtune.data.corpus import Corpus, best_positions
from ragtune.data.files.textfile import read_json

MANIFEST, NEIGHBOURS, WEIGHTS = "graph.json", "neighbours.npy", "weights.npy"
"""Files of a graph's folder."""

NOBODY = -1
"""Fills the row of a document with fewer than K neighbours; its weight is 0."""

_HIGHEST = 1 + 1e-4
"""Highest weight allowed: a cosine of float32 vectors may be rounded above 1."""


class GraphManifest(BaseModel):
    """The description ``graph.json``: the corpus's digest, N, K, kind and settings of the nearness, seconds it took."""

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
        """Read the manifest of a graph's folder."""
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

    Examples:
        >>> import numpy as np
        >>> from ragtune import Corpus, Document
        >>> from ragtune.data.graph import CorpusGraph
        >>> corpus = Corpus([Document(id="d1", text="green tea"), Document(id="d2", text="black tea")])
        >>> neighbours, weights = np.array([[1], [0]], dtype=np.int32), np.full((2, 1), 0.5, dtype=np.float32)
        >>> graph = CorpusGraph(corpus, neighbours, weights)
        >>> graph.neighbours("d1")
        ['d2']
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
        """Map the graph in a folder, and check its values once.

        Args:
            path: the folder.
            corpus: the collection.
            k: neighbours used; a graph of all N - 1 serves any number.

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
        neighbours = _mapped(folder / NEIGHBOURS, shape, np.int32, NOBODY, len(corpus) - 1)
        weights = _mapped(folder / WEIGHTS, shape, np.float32, 0.0, _HIGHEST)
        return cls(corpus, neighbours, weights, min(used, manifest.k))

    def neighbours(self, doc_id: str) -> list[str]:
        """Return ids of a document's neighbours, nearest first.

        Raises:
            DatasetError: if the corpus does not hold the document.
        """
        positions, _ = self.rows([self._corpus.position(doc_id)])
        return [self._corpus.doc_ids[i] for i in positions[0].tolist() if i != NOBODY]

    def positions(self, doc_ids: Sequence[str]) -> list[int]:
        """Positions of documents in the corpus; errors as in :meth:`neighbours`."""
        return self._corpus.positions(doc_ids)

    def rows(self, positions: Sequence[int]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return corpus positions of the neighbours of the documents at m positions, and their weights.

        Both have shape (m, k), nearest first, :data:`NOBODY` where there are fewer.
        """
        neighbours, weights = self._neighbours.take(positions, axis=0), self._weights.take(positions, axis=0)
        return neighbours[:, : self.k], weights[:, : self.k]


def nearest(scores: NDArray[np.floating[Any]], position: int, k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """A document's neighbours and weights, shape (k,) each; positive scores only, equal ones by corpus position."""
    row = scores.astype(np.float32)
    row[position] = 0.0
    best = best_positions(row, np.arange(len(row)), k, above=0.0)
    neighbours, weights = np.full(k, NOBODY, dtype=np.int32), np.zeros(k, dtype=np.float32)
    neighbours[: len(best)], weights[: len(best)] = best, row[best]
    return neighbours, weights


def create_arrays(folder: Path, documents: int, k: int) -> Mapping[str, np.memmap[Any, Any]]:
    """Create memory-mapped arrays for a new graph, by file name, to be filled row by row and flushed."""
    kinds = {NEIGHBOURS: np.int32, WEIGHTS: np.float32}
    return {
        name: np.lib.format.open_memmap(folder / name, mode="w+", dtype=kind, shape=(documents, k))
        for name, kind in kinds.items()
    }


def _mapped(file: Path, shape: tuple[int, int], kind: type[np.generic], lowest: float, highest: float) -> NDArray[Any]:
    try:
        # As a plain array: indexing a memmap costs ten times as much.
        array: NDArray[Any] = np.asarray(np.load(file, mmap_mode="r", allow_pickle=False))
    except Exception as error:  # NumPy raises errors of many kinds for a damaged header
        reason = quoted(" ".join(str(error).split()))[1:-1]
        raise ConfigError(f"damaged corpus graph: {str(file)!r} cannot be read ({reason})") from None
    if array.shape != shape or array.dtype != kind:
        raise ConfigError(
            f"damaged corpus graph: {str(file)!r} is of shape {array.shape} and type {array.dtype}, expected is "
            f"{shape} and {np.dtype(kind)}"
        )
    # Any other value would index another document, or none. NaN is in no range.
    least, most = array.min(), array.max()
    if not (lowest <= least and most <= highest):
        raise ConfigError(
            f"damaged corpus graph: {str(file)!r} holds values from {least} to {most}: allowed are {lowest} to "
            f"{highest}"
        )
    return array
