"""Every fusion keeps the contract."""

from __future__ import annotations

import pytest

from ragtune.core.interfaces import BaseFusion
from ragtune.fusion.concat import ConcatFusion
from ragtune.fusion.rrf import RRFFusion
from ragtune.testing import FusionContract, UnorderedFusionContract

RRF = {
    "plain": RRFFusion(),
    "weighted": RRFFusion(k=1, weights={"a": 2.0, "b": 0.5}),
    "one_list_ignored": RRFFusion(weights={"a": 0.0}),
}


class TestConcat(FusionContract):
    def make(self) -> BaseFusion:
        return ConcatFusion()


class TestRRF(UnorderedFusionContract):
    @pytest.fixture(autouse=True, params=RRF)
    def chosen(self, request: pytest.FixtureRequest) -> None:
        self.name = request.param

    def make(self) -> BaseFusion:
        return RRF[self.name]
