"""Every assembler keeps the contract, in every order."""

from __future__ import annotations

import pytest

from ragtune.assemblers.greedy import GreedyAssembler
from ragtune.core.interfaces import BaseAssembler
from ragtune.core.pool.ordering import Ordering
from ragtune.testing import AssemblerContract


class TestGreedy(AssemblerContract):
    @pytest.fixture(autouse=True, params=Ordering)
    def chosen(self, request: pytest.FixtureRequest) -> None:
        self.ordering = request.param

    def make(self) -> BaseAssembler:
        return GreedyAssembler(self.ordering)
