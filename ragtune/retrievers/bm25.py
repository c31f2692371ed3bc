"""BM25 by bm25s, the default first stage. Its index is built in memory that hardly grows with the collection."""

from __future__ import annotations

import logging
import tempfile
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arguments import check_choice, check_number
from ragtune.core.interfaces import BaseRetriever
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.caches.diskcache import AUTO, DiskCache
from ragtune.data.corpus import Corpus, best_positions
from ragtune.data.text import analyzer_id, terms

METHODS = ("lucene", "robertson", "atire")
"""Variants in which a document without any query term scores 0 (Kamphuis et al. 2020)."""

_TOKENS = 4_000_000  # terms that are held at once: 300 MB while they are sorted

_log = logging.getLogger(__name__)


class BM25Retriever(BaseRetriever):
    """Okapi BM25 (Robertson et al. 1994) over stemmed terms, scored eagerly at indexing time (Lu 2024, bm25s).

    Documents without any query term are not returned; a term that the query repeats counts as often as it is
    repeated, on which weighted queries (``rm3``) rely. The index is cached on disk, keyed by the corpus, the
    settings and the versions of the libraries, and memory-mapped, so that processes share it.
    """

    def __init__(
        self,
        corpus: Corpus,
        k1: float = 1.5,
        b: float = 0.75,
        method: str = "lucene",
        cache_dir: str | Path | None = AUTO,
    ) -> None:
        self.k1 = check_number("bm25 k1", k1, low=0.0)
        self.b = check_number("bm25 b", b, 0.0, 1.0)
        self.method = check_choice("bm25 method", method, METHODS)
        self._corpus = corpus
        self._tie_ranks = corpus.id_ranks
        key = f"{corpus.digest} {analyzer_id()} bm25s-{version('bm25s')} {self.method} k1={self.k1!r} b={self.b!r}"
        self._index = DiskCache("bm25", cache_dir).fetch(
            key, self._build, lambda index, folder: index.save(folder, show_progress=False), _load
        )

    def retrieve(self, context: RAGtuneContext, top_k: int) -> Sequence[ScoredDocument]:
        known = self._index.get_tokens_ids(terms(context.query))
        if not known:
            return []
        scores = self._index.get_scores_from_ids(known)
        best = best_positions(scores, self._tie_ranks, top_k, above=0.0)
        return self._corpus.hits_at(best.tolist(), scores[best].tolist())

    def _build(self) -> Any:
        """A ``bm25s.BM25`` with exactly its scores, by runs of postings on disk; memory has vocabulary and lengths."""
        import bm25s

        index = bm25s.BM25(k1=self.k1, b=self.b, method=self.method)
        vocabulary: defaultdict[str, int] = defaultdict(count().__next__)  # numbers terms in their order of appearance
        lengths = array("q")
        # Mapped files may be removed, where the system allows it; elsewhere the system clears its temporary folder.
        with tempfile.TemporaryDirectory(prefix="ragtune-bm25-", ignore_cleanup_errors=True) as folder:
            files = []
            for number, run in enumerate(_runs(self._corpus.contents, vocabulary, lengths)):
                files.append(Path(folder, f"run-{number}.npy"))
                np.save(files[-1], run)
            if not vocabulary:  # bm25s divides by the mean length: it needs a token, which no query has
                index.index([[""]] * len(self._corpus), show_progress=False)
                return index
            index.scores = _scored(index, files, len(vocabulary), np.frombuffer(lengths, dtype=np.int64), Path(folder))
        index.vocab_dict, index.nonoccurrence_array = dict(vocabulary), None
        index.unique_token_ids_set = set(vocabulary.values())
        return index


def _runs(texts: Iterable[str], vocabulary: dict[str, int], lengths: array[int]) -> Iterator[NDArray[np.int32]]:
    """The postings of consecutive documents: terms, documents and counts, shape (3, postings), by term and document."""
    numbers, first = array("i"), 0
    for done, text in enumerate(texts, 1):
        found = list(map(vocabulary.__getitem__, terms(text)))
        numbers.extend(found)
        lengths.append(len(found))
        if len(numbers) >= _TOKENS:
            yield _sorted_run(numbers, lengths, first)
            numbers, first = array("i"), done
            _log.info("bm25: %d documents read, %d terms", done, len(vocabulary))
    if numbers:
        yield _sorted_run(numbers, lengths, first)


def _sorted_run(numbers: array[int], lengths: array[int], first: int) -> NDArray[np.int32]:
    each = np.array(lengths[first:], dtype=np.int64)
    tokens = np.frombuffer(numbers, dtype=np.int32).astype(np.int64)
    keys, counts = np.unique(tokens * len(each) + np.repeat(np.arange(len(each)), each), return_counts=True)
    numbers_of_terms, documents = np.divmod(keys, len(each))
    return np.stack([numbers_of_terms, documents + first, counts]).astype(np.int32)


def _scored(
    index: Any, files: Sequence[Path], vocabulary: int, lengths: NDArray[np.int64], folder: Path
) -> dict[str, Any]:
    """The arrays that bm25s searches: the scores of every term's documents, one term after the other."""
    from bm25s.scoring import _build_idf_array, _select_idf_scorer, _select_tfc_scorer

    size, mean = len(lengths), lengths.mean()
    frequencies = np.zeros(vocabulary, dtype=np.int64)
    for file in files:
        frequencies += np.bincount(np.load(file)[0], minlength=vocabulary)
    idf = _build_idf_array(dict(enumerate(frequencies.tolist())), size, _select_idf_scorer(index.idf_method))
    term_part = _select_tfc_scorer(index.method)
    starts = np.concatenate([[0], np.cumsum(frequencies)])
    data, indices = (
        np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=kind, shape=(int(starts[-1]),))
        for name, kind in (("data", np.float32), ("indices", np.int32))
    )
    places = starts[:-1].copy()
    for number, file in enumerate(files, 1):
        terms_of, documents, counts = np.load(file)
        file.unlink()
        here = np.bincount(terms_of, minlength=vocabulary)
        into = np.arange(len(terms_of)) + np.repeat(places - (np.cumsum(here) - here), here)
        counts = counts.astype(np.float32)
        parts = term_part(tf_array=counts, l_d=lengths[documents], l_avg=mean, k1=index.k1, b=index.b)
        data[into] = idf[terms_of] * parts
        indices[into] = documents
        places += here
        if len(files) > 1:
            _log.info("bm25: %d of %d runs of postings scored", number, len(files))
    return {"data": np.asarray(data), "indices": np.asarray(indices), "indptr": starts, "num_docs": size}


def _load(folder: Path) -> Any:
    import bm25s

    index = bm25s.BM25.load(folder, mmap=True, show_progress=False)
    # As plain arrays over the same mapped files: a memmap costs microseconds whenever it is sliced.
    index.scores |= {name: np.asarray(index.scores[name]) for name in ("data", "indices", "indptr")}
    return index
