"""Builds an index of bm25s from a stream of texts, in memory that does not grow with their number."""

from __future__ import annotations

import logging
import tempfile
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_TOKENS = 4_000_000  # terms that are held at once: 300 MB while they are sorted

_log = logging.getLogger(__name__)


class _Run(NamedTuple):
    """The postings of some consecutive documents, by term, then by document; shapes (postings,)."""

    terms: NDArray[np.int32]
    documents: NDArray[np.int32]
    counts: NDArray[np.int32]


def built(
    texts: Iterable[str], size: int, terms: Callable[[str], Sequence[str]], k1: float, b: float, method: str
) -> Any:
    """Build a ``bm25s.BM25`` with exactly the scores of bm25s itself.

    Runs of postings that fit into memory are sorted and written to disk. When all documents are counted, each run is
    scored and copied to the places of its terms in memory-mapped arrays. Only the vocabulary and a number for each
    document grow with the collection. Progress is logged.
    """
    import bm25s

    index = bm25s.BM25(k1=k1, b=b, method=method)
    vocabulary: defaultdict[str, int] = defaultdict(count().__next__)  # numbers terms in their order of appearance
    lengths = array("q")
    # Mapped files may be removed, where the system allows it; elsewhere the system clears its temporary folder.
    with tempfile.TemporaryDirectory(prefix="ragtune-bm25-", ignore_cleanup_errors=True) as folder:
        files = []
        for number, run in enumerate(_runs(texts, size, terms, vocabulary, lengths)):
            files.append(Path(folder, f"run-{number}.npy"))
            np.save(files[-1], np.stack(run))
        if not vocabulary:  # bm25s divides by the mean length: it needs a token, which no query has
            index.index([[""]] * size, show_progress=False)
            return index
        frequencies = np.zeros(len(vocabulary), dtype=np.int64)
        for file in files:
            frequencies += np.bincount(_loaded(file).terms, minlength=len(vocabulary))
        scores = _scored(index, files, frequencies, np.frombuffer(lengths, dtype=np.int64), Path(folder))
    index.scores, index.vocab_dict, index.nonoccurrence_array = scores, dict(vocabulary), None
    index.unique_token_ids_set = set(vocabulary.values())
    return index


def _runs(
    texts: Iterable[str],
    size: int,
    terms: Callable[[str], Sequence[str]],
    vocabulary: dict[str, int],
    lengths: array[int],
) -> Iterator[_Run]:
    numbers, first = array("i"), 0
    for done, text in enumerate(texts, 1):
        found = list(map(vocabulary.__getitem__, terms(text)))
        numbers.extend(found)
        lengths.append(len(found))
        if len(numbers) >= _TOKENS:
            yield _sorted_run(numbers, lengths, first)
            numbers, first = array("i"), done
            _log.info("bm25: %d of %d documents read, %d terms", done, size, len(vocabulary))
    if numbers:
        yield _sorted_run(numbers, lengths, first)


def _sorted_run(numbers: array[int], lengths: array[int], first: int) -> _Run:
    each = np.array(lengths[first:], dtype=np.int64)
    tokens = np.frombuffer(numbers, dtype=np.int32).astype(np.int64)
    keys, counts = np.unique(tokens * len(each) + np.repeat(np.arange(len(each)), each), return_counts=True)
    terms, documents = np.divmod(keys, len(each))
    return _Run(terms.astype(np.int32), (documents + first).astype(np.int32), counts.astype(np.int32))


def _loaded(file: Path) -> _Run:
    return _Run(*np.load(file))


def _scored(
    index: Any, files: Sequence[Path], frequencies: NDArray[np.int64], lengths: NDArray[np.int64], folder: Path
) -> dict[str, Any]:
    """The arrays that bm25s searches: the scores of every term's documents, one term after the other."""
    from bm25s.scoring import _build_idf_array, _select_idf_scorer, _select_tfc_scorer

    size, mean = len(lengths), lengths.mean()
    idf = _build_idf_array(dict(enumerate(frequencies.tolist())), size, _select_idf_scorer(index.idf_method))
    term_part = _select_tfc_scorer(index.method)
    starts = np.concatenate([[0], np.cumsum(frequencies)])
    data, indices = (
        np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=kind, shape=(int(starts[-1]),))
        for name, kind in (("data", np.float32), ("indices", np.int32))
    )
    places = starts[:-1].copy()
    for number, file in enumerate(files, 1):
        run = _loaded(file)
        file.unlink()
        here = np.bincount(run.terms, minlength=len(places))
        into = np.arange(len(run.terms)) + np.repeat(places - (np.cumsum(here) - here), here)
        counts = run.counts.astype(np.float32)
        parts = term_part(tf_array=counts, l_d=lengths[run.documents], l_avg=mean, k1=index.k1, b=index.b)
        data[into] = idf[run.terms] * parts
        indices[into] = run.documents
        places += here
        if len(files) > 1:
            _log.info("bm25: %d of %d runs of postings scored", number, len(files))
    return {"data": np.asarray(data), "indices": np.asarray(indices), "indptr": starts, "num_docs": size}
