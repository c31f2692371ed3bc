from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ragtune import Corpus, Document
from ragtune.core.errors import ConfigError
from ragtune.data.graph import NEIGHBOURS, WEIGHTS, CorpusGraph, nearest

MakeGraph = Callable[..., str]


@pytest.fixture
def letters() -> Corpus:
    return Corpus(Document(id=letter, text=f"text {letter}") for letter in "abcde")


@pytest.fixture
def folder(letters: Corpus, make_graph: MakeGraph, tmp_path: Path) -> str:
    edges = {"a": {"c": 0.9, "b": 0.5, "d": 0.1}, "b": {"a": 0.5}}
    return make_graph(tmp_path / "graph", letters, edges, 3)


@pytest.mark.parametrize("k", [4, 0, -1, 2.0, True])
def test_a_k_that_is_not_stored_is_refused(letters, folder, k):
    with pytest.raises(ConfigError, match="graph k="):
        CorpusGraph.open(folder, letters, k=k)


def test_a_graph_that_holds_all_neighbours_serves_any_k(make_graph: MakeGraph, tmp_path: Path):
    pair = Corpus([Document(id="a", text="one"), Document(id="b", text="two")])
    folder = make_graph(tmp_path / "graph", pair, {"a": {"b": 0.5}}, 1)
    graph = CorpusGraph.open(folder, pair, k=16)
    assert (graph.k, graph.neighbours("a")) == (1, ["b"])


def test_a_graph_of_another_corpus_is_refused_with_both_hashes(letters, folder):
    other = Corpus(Document(id=letter, text=f"other text {letter}") for letter in "abcde")
    with pytest.raises(ConfigError) as refused:
        CorpusGraph.open(folder, other)
    assert letters.digest in str(refused.value)
    assert other.digest in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (NEIGHBOURS, 5, "holds values from -1 to 5: allowed are -1 to 4"),
        (NEIGHBOURS, -2, "holds values from -2 to"),
        (WEIGHTS, np.nan, "holds values from nan to nan: allowed are 0.0 to 1"),
        (WEIGHTS, -0.5, "holds values from -0.5 to"),
        (WEIGHTS, 1.5, "to 1.5: allowed"),
    ],
)
def test_wrong_values_are_refused_by_file_and_range(letters, folder, name, value, said):
    array = np.load(Path(folder) / name)
    array[1, 0] = value
    np.save(Path(folder) / name, array)
    with pytest.raises(ConfigError, match="damaged corpus graph") as refused:
        CorpusGraph.open(folder, letters)
    assert name in str(refused.value)
    assert said in str(refused.value)


def test_a_cosine_that_rounding_lifted_above_1_is_no_damage(letters, make_graph, tmp_path):
    folder = make_graph(
        tmp_path / "rounded", letters, {"a": {"b": float(np.nextafter(np.float32(1), np.float32(2)))}}, 1
    )
    assert CorpusGraph.open(folder, letters).neighbours("a") == ["b"]


def test_a_row_leaves_the_document_itself_and_strangers_out_and_goes_by_corpus_position_where_equal():
    assert nearest(np.array([0.5, 0.5, 0.5, 0.9, 0.5]), 1, 3)[0].tolist() == [3, 0, 2]
    neighbours, weights = nearest(np.array([0.3, 9.0, 0.0, -1.0, 0.7]), 1, 4)
    assert neighbours.tolist() == [4, 0, -1, -1]
    assert weights == pytest.approx([0.7, 0.3, 0.0, 0.0])
