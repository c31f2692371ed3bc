"""Sparse TF-IDF vectors of a collection."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtune.core.interfaces import BaseEmbedder
from ragtune.core.pool.items import PoolItem, ids_of
from ragtune.data.caches.diskcache import AUTO, DiskCache
from ragtune.data.corpus import Corpus
from ragtune.data.text import analyzer_id, terms


@dataclass
class _Model:
    """A fitted weighting: document rows, and the vocabulary and weights for new texts."""

    matrix: Any
    vocabulary: dict[str, int]
    idf: NDArray[np.float64]

    @cached_property
    def vectorizer(self) -> Any:
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(analyzer=terms, sublinear_tf=True, vocabulary=self.vocabulary)
        vectorizer.idf_ = self.idf
        return vectorizer


class TfidfEmbedder(BaseEmbedder):
    """TF-IDF (Salton and Buckley 1988) over stemmed terms, L2-normalised; a collection's fit is shared and cached."""

    are_words = True

    def __init__(self, corpus: Corpus, cache_dir: str | Path | None = AUTO) -> None:
        self._corpus = corpus
        self._model = _model_of(corpus, self.name, cache_dir)

    def prepare(self) -> None:
        if self._model.vocabulary:
            _ = self._model.vectorizer

    def of(self, items: Sequence[PoolItem]) -> Any:
        return self.rows(ids_of(items))

    def of_query(self, text: str) -> Any:
        from scipy.sparse import csr_matrix

        if not self._model.vocabulary:
            return csr_matrix((1, self._model.matrix.shape[1]))
        return csr_matrix(self._model.vectorizer.transform([text]))

    def rows(self, doc_ids: Sequence[str]) -> Any:
        """Vectors of documents: ``csr_matrix``, shape (len(doc_ids), terms), L2-normalised or zero, float64."""
        return self._model.matrix[self._corpus.positions(doc_ids)]

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Dense vectors of any texts, shape (len(texts), terms): mind the memory, 4 bytes a text and term."""
        if not self._model.vocabulary or not texts:
            return np.zeros((len(texts), max(1, len(self._model.vocabulary))), dtype=np.float32)
        return np.asarray(self._model.vectorizer.transform(texts).astype(np.float32).toarray())

    @property
    def name(self) -> str:
        library = f"scikit-learn-{version('scikit-learn')}"
        return f"tfidf {self._corpus.digest} {analyzer_id()} {library} sublinear_tf=True min_df=1"


@lru_cache(maxsize=4)  # of the latest collections, which the jobs of a sweep share
def _model_of(corpus: Corpus, name: str, cache_dir: str | Path | None) -> _Model:
    """The fitted model: from this process, the cache folder, or the texts."""
    return DiskCache("tfidf", cache_dir).fetch(name, lambda: _fit(corpus.contents), _save, _load)


def _fit(contents: Sequence[str]) -> _Model:
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(analyzer=terms, sublinear_tf=True)
    try:
        matrix = csr_matrix(vectorizer.fit_transform(contents))
    except ValueError:  # scikit-learn refuses an empty vocabulary; texts without terms are alike in nothing
        return _Model(csr_matrix((len(contents), 1)), {}, np.zeros(0))
    vocabulary = {term: int(column) for term, column in vectorizer.vocabulary_.items()}
    return _Model(matrix, vocabulary, np.asarray(vectorizer.idf_))


def _save(model: _Model, folder: Path) -> None:
    from scipy.sparse import save_npz

    save_npz(folder / "matrix.npz", model.matrix, compressed=False)
    np.save(folder / "idf.npy", model.idf)
    (folder / "model.json").write_text(json.dumps({"vocabulary": model.vocabulary}), encoding="utf-8")


def _load(folder: Path) -> _Model:
    from scipy.sparse import csr_matrix, load_npz

    vocabulary = json.loads((folder / "model.json").read_text(encoding="utf-8"))["vocabulary"]
    return _Model(csr_matrix(load_npz(folder / "matrix.npz")), vocabulary, np.load(folder / "idf.npy"))
