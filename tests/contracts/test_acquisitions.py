"""Every acquisition keeps the contract."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ragtune.acquisitions.mean import MeanAcquisition
from ragtune.acquisitions.thompson import ThompsonAcquisition
from ragtune.acquisitions.top_k_probability import TopKProbabilityAcquisition
from ragtune.acquisitions.upper_confidence import UpperConfidenceAcquisition
from ragtune.core.interfaces import BaseAcquisition
from ragtune.testing import AcquisitionContract

ACQUISITIONS: dict[str, Callable[[], BaseAcquisition]] = {
    "mean": MeanAcquisition,
    "upper_confidence": UpperConfidenceAcquisition,
    "top_k_probability": lambda: TopKProbabilityAcquisition(k=3),
    "thompson": lambda: ThompsonAcquisition(seed=7),
}


class TestAcquisitions(AcquisitionContract):
    @pytest.fixture(autouse=True, params=ACQUISITIONS)
    def chosen(self, request: pytest.FixtureRequest) -> None:
        self.name = request.param

    def make(self) -> BaseAcquisition:
        return ACQUISITIONS[self.name]()
