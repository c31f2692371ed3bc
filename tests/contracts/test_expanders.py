"""Every expander keeps the contract."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ragtune.core.interfaces import BaseExpander
from ragtune.expanders.corpus_graph import CorpusGraphExpander
from ragtune.expanders.none import NoExpander
from ragtune.rerankers.noop import NoOpReranker
from ragtune.testing import ExpanderContract, make_context
from ragtune.testing.expanders import finds

EDGES = {
    "heart-1": {"bread-3": 0.9, "star-1": 0.8, "honey-1": 0.8},
    "heart-2": {"star-1": 0.9, "heart-1": 0.5},
    "ship-1": {"ship-2": 1.0, "bread-1": 0.1},
    "bread-3": {"bread-1": 0.9, "bread-2": 0.9},
}


class TestNone(ExpanderContract):
    def make(self) -> BaseExpander:
        return NoExpander()


class TestCorpusGraph(ExpanderContract):
    @pytest.fixture(autouse=True)
    def saved(self, make_graph: Callable[..., str], tmp_path: Path) -> None:
        self.graph = make_graph(tmp_path / "graph", self.corpus, EDGES, 3)

    def make(self) -> BaseExpander:
        return CorpusGraphExpander(self.corpus, self.graph, NoOpReranker(), k=3, ordering="reranked_first")

    def test_the_graph_has_something_to_find(self) -> None:
        """Otherwise the contract would say nothing."""
        assert sum(len(found) for _, found in finds(self.make(), make_context(), 2)) >= 4
