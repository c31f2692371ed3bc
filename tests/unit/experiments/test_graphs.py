from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.prepare import graphs
from experiments.prepare.graphs import build_graph
from ragtune import Corpus, Document
from ragtune.core.errors import ConfigError
from ragtune.data.graph import MANIFEST, WEIGHTS, CorpusGraph, GraphManifest
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


def test_vectors_that_are_there_make_a_graph_of_their_own(corpus: Corpus, tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(len(corpus), 6)).astype(np.float32) * 7.0
    vectors[3] = 0.0
    np.save(tmp_path / "vectors.npy", vectors)
    build_graph(corpus, tmp_path / "graph", silent, kind="vectors", k=2, vectors=tmp_path / "vectors.npy")
    graph = CorpusGraph.open(tmp_path / "graph", corpus)
    cosines = vectors @ vectors[0] / np.maximum(np.linalg.norm(vectors, axis=1) * np.linalg.norm(vectors[0]), 1e-9)
    cosines[0] = -1.0
    best = np.argsort(-cosines)[:2]
    assert graph.neighbours(corpus.doc_ids[0]) == [corpus.doc_ids[i] for i in best]
    assert graph.rows([0])[1][0].tolist() == pytest.approx(cosines[best].tolist(), abs=1e-6)
    assert graph.neighbours(corpus.doc_ids[3]) == [], "a document without a vector is near nobody"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (None, "--vectors .*: cannot be read: .*No such file"),
        (np.ones((2, 3)), r"shape \(2, 3\): allowed is numbers, \(\d+, d\)"),
        ("nan", "row 1 holds a value that is no finite number"),
    ],
)
def test_vectors_of_something_else_are_refused(corpus: Corpus, tmp_path: Path, rows: Any, message: str) -> None:
    if isinstance(rows, str):
        rows = np.ones((len(corpus), 3))
        rows[1, 2] = np.nan
    if rows is not None:
        np.save(tmp_path / "vectors.npy", rows)
    with pytest.raises(ConfigError, match=message):
        build_graph(corpus, tmp_path / "graph", silent, kind="vectors", vectors=tmp_path / "vectors.npy")
    with pytest.raises(ConfigError, match="name their file, --vectors FILE"):
        build_graph(corpus, tmp_path / "graph", silent, kind="vectors")


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


def test_a_good_graph_is_kept(corpus: Corpus, tmp_path: Path) -> None:
    out = tmp_path / "graph"
    build_graph(corpus, out, silent, k=4)
    stamp = (out / MANIFEST).stat().st_mtime_ns
    assert not build_graph(corpus, out, silent, k=4).built
    assert not build_graph(corpus, out, silent, k=2).built
    assert (out / MANIFEST).stat().st_mtime_ns == stamp
    assert build_graph(corpus, out, silent, k=2, force=True).built
    assert GraphManifest.read(out).k == 2


def test_another_graph_is_not_overwritten_unasked(corpus: Corpus, tmp_path: Path) -> None:
    out = tmp_path / "graph"
    build_graph(corpus, out, silent, k=2)
    other = Corpus([Document(id="a", text="one text"), Document(id="b", text="another text")])
    np.save(tmp_path / "v.npy", np.eye(len(corpus)))
    for wish in ({"kind": "vectors", "vectors": tmp_path / "v.npy", "k": 2}, {"k": 3}):
        with pytest.raises(ConfigError, match="holds another graph"):
            build_graph(corpus, out, silent, **wish)
    with pytest.raises(ConfigError, match="holds another graph"):
        build_graph(other, out, silent, k=2)
    build_graph(other, out, silent, k=1, force=True)
    assert CorpusGraph.open(out, other).neighbours("a") == ["b"]


@pytest.mark.parametrize("harm", [MANIFEST, WEIGHTS])
def test_a_damaged_graph_is_built_again(corpus: Corpus, tmp_path: Path, harm: str) -> None:
    out = tmp_path / "graph"
    build_graph(corpus, out, silent, k=2)
    (out / harm).write_bytes(b"{")
    assert build_graph(corpus, out, silent, k=2).built
    assert CorpusGraph.open(out, corpus).neighbours("bread-1")[0] == "bread-2"


def test_what_is_no_graph_is_never_replaced(corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.tex").write_text("precious")
    for out in (tmp_path / "file", tmp_path / "folder"):
        with pytest.raises(ConfigError, match="is no corpus graph"):
            build_graph(corpus, out, silent, force=True)
    assert (tmp_path / "folder" / "thesis.tex").read_text() == "precious"


def test_a_k_beyond_the_other_documents_is_stored_as_that_many(corpus: Corpus, tmp_path: Path) -> None:
    cost = build_graph(corpus, tmp_path / "graph", silent, k=100_000)
    assert (cost.k, GraphManifest.read(tmp_path / "graph").k) == (11, 11)
    assert CorpusGraph.open(tmp_path / "graph", corpus, k=16).neighbours("bread-1")[0] == "bread-2"
    assert not build_graph(corpus, tmp_path / "graph", silent, k=50).built
