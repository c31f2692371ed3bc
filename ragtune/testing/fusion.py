"""What every fusion promises (:class:`~ragtune.core.interfaces.BaseFusion`)."""

from __future__ import annotations

import itertools
import math
from random import Random

import pytest

from ragtune.core.interfaces import BaseFusion
from ragtune.core.types import ScoredDocument


def ranked(ids: str, scale: float = 1.0) -> list[ScoredDocument]:
    """One document a letter, best first, with scores falling (or rising, where ``scale`` is negative) like 1/rank."""
    return [
        ScoredDocument(id=doc_id, content=f"text {doc_id}", score=scale / rank, original_score=scale / rank)
        for rank, doc_id in enumerate(ids, start=1)
    ]


LISTS = {"a": ranked("wxyz", 10.0), "b": ranked("zvw"), "c": ranked("u", -1.0), "none": []}


class FusionContract:
    """Derive from it and define :meth:`make`."""

    def make(self) -> BaseFusion:
        """A new fusion of lists with any names."""
        raise NotImplementedError

    @pytest.fixture
    def fusion(self) -> BaseFusion:
        return self.make()

    def test_keeps_every_document_once_best_first(self, fusion: BaseFusion) -> None:
        random = Random(0)
        for _ in range(200):
            names = random.sample("abc", random.randint(0, 3))
            lists = {name: "".join(random.sample("pqrstuvwxyz", random.randint(0, 11))) for name in names}
            fused = fusion.fuse({name: ranked(ids) for name, ids in lists.items()})
            ids = [doc.id for doc in fused]
            scores = [doc.score for doc in fused]
            assert sorted(ids) == sorted(set("".join(lists.values())))
            assert scores == sorted(scores, reverse=True)
            assert all(math.isfinite(score) for score in scores)

    def test_provenance_names_every_list_with_the_score_there(self, fusion: BaseFusion) -> None:
        for doc in fusion.fuse(LISTS):
            held = {source: d.score for source, docs in LISTS.items() for d in docs if d.id == doc.id}
            assert doc.sources == held

    def test_the_fused_score_is_marked_as_such(self, fusion: BaseFusion) -> None:
        for doc in fusion.fuse(LISTS):
            assert doc.fusion_score == doc.score
            assert doc.content == f"text {doc.id}"

    def test_equal_scores_are_ordered_by_document_id(self, fusion: BaseFusion) -> None:
        fused = [(-doc.score, doc.id) for doc in fusion.fuse({"b": ranked("zx"), "c": ranked("yw")})]
        assert fused == sorted(fused)

    def test_answers_the_same_twice(self, fusion: BaseFusion) -> None:
        assert fusion.fuse(LISTS) == fusion.fuse(LISTS) == self.make().fuse(LISTS)

    def test_one_list_keeps_its_order(self, fusion: BaseFusion) -> None:
        assert [doc.id for doc in fusion.fuse({"c": ranked("zaybx")})] == list("zaybx")

    def test_a_list_that_repeats_a_document_counts_its_best_rank(self, fusion: BaseFusion) -> None:
        assert [doc.id for doc in fusion.fuse({"c": ranked("zyz")})] == ["z", "y"]

    def test_nothing_in_nothing_out(self, fusion: BaseFusion) -> None:
        assert fusion.fuse({}) == fusion.fuse({"a": []}) == fusion.fuse({"a": [], "b": []}) == []


class UnorderedFusionContract(FusionContract):
    """For fusions to which the order of the lists means nothing. Derive from it and define :meth:`make`."""

    def test_the_order_of_the_lists_means_nothing(self, fusion: BaseFusion) -> None:
        expected = fusion.fuse(LISTS)
        for order in itertools.permutations(LISTS):
            assert fusion.fuse({key: LISTS[key] for key in order}) == expected
