from pathlib import Path

import numpy as np
import pytest

from experiments.prepare import graphs
from experiments.prepare.graphs import build_graph
from ragtune import Corpus
from ragtune.core.errors import ConfigError
from ragtune.data.graph import CorpusGraph, GraphManifest
from ragtune.embedders.tfidf import TfidfEmbedder


def silent(done: int, total: int) -> None:
    pass


def test_texts_that_are_alike_are_neighbours(corpus: Corpus, tmp_path: Path) -> None:
    build_graph(corpus, tmp_path / "graph", silent, k=3)
    graph = CorpusGraph.open(tmp_path / "graph", corpus)
    assert graph.neighbours("bread-1")[0] == "bread-2"
    assert set(graph.neighbours("heart-1")[:2]) == {"heart-2", "heart-3"}
    for doc_id in corpus.doc_ids:
        assert doc_id not in graph.neighbours(doc_id)
        weights = graph.rows(graph.positions([doc_id]))[1][0].tolist()
        assert weights == sorted(weights, reverse=True)
        assert all(0 <= weight <= 1 + 1e-6 for weight in weights)


def test_the_graph_does_not_depend_on_the_size_of_the_blocks(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = TfidfEmbedder(corpus).rows(corpus.doc_ids)
    cosines = (rows @ rows.T).toarray()
    for block in (1, 8 * len(corpus) * 5, 2**26):
        monkeypatch.setattr(graphs, "_BLOCK_BYTES", block)
        build_graph(corpus, tmp_path / str(block), silent, k=4)
        graph = CorpusGraph.open(tmp_path / str(block), corpus)
        for i, doc_id in enumerate(corpus.doc_ids):
            expected = sorted(
                (j for j in range(len(corpus)) if j != i and cosines[i, j] > 0),
                key=lambda j: (-np.float32(cosines[i, j]), j),
            )
            assert graph.neighbours(doc_id) == [corpus.doc_ids[j] for j in expected[:4]]


def test_what_is_there_is_never_replaced(corpus: Corpus, tmp_path: Path) -> None:
    build_graph(corpus, tmp_path / "graph", silent, k=4)
    with pytest.raises(ConfigError, match="exists: name a new folder"):
        build_graph(corpus, tmp_path / "graph", silent, k=2)
    assert GraphManifest.read(tmp_path / "graph").k == 4


def test_a_k_beyond_the_other_documents_is_stored_as_that_many(corpus: Corpus, tmp_path: Path) -> None:
    cost = build_graph(corpus, tmp_path / "graph", silent, k=100_000)
    assert (cost.k, GraphManifest.read(tmp_path / "graph").k) == (11, 11)
    assert CorpusGraph.open(tmp_path / "graph", corpus, k=16).neighbours("bread-1")[0] == "bread-2"
