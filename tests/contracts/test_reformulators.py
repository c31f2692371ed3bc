"""Every reformulator keeps the contract."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ragtune.core.interfaces import BaseReformulator
from ragtune.llm.client import LLMClient
from ragtune.llm.prompts import PromptLibrary
from ragtune.reformulators.hyde import HydeReformulator
from ragtune.reformulators.identity import IdentityReformulator
from ragtune.reformulators.llm_rewrite import LLMReformulator
from ragtune.reformulators.rm3 import RM3Reformulator
from ragtune.testing import ReformulatorContract

Factory = Callable[[pytest.FixtureRequest], BaseReformulator]


def _asking(request: pytest.FixtureRequest) -> tuple[LLMClient, PromptLibrary]:
    """A model on a server of this machine and the shipped prompts."""
    client = LLMClient(model="test", base_url=request.getfixturevalue("llm_server").url, mode="live")
    request.addfinalizer(client.close)
    return client, PromptLibrary()


REFORMULATORS: dict[str, Factory] = {
    "identity": lambda request: IdentityReformulator(),
    "rm3": lambda request: RM3Reformulator(request.getfixturevalue("corpus")),
    "rm3_small": lambda request: RM3Reformulator(
        request.getfixturevalue("corpus"), fb_docs=2, fb_terms=3, min_df=1, resolution=20
    ),
    "llm_rewrite": lambda request: LLMReformulator(*_asking(request)),
    "hyde": lambda request: HydeReformulator(*_asking(request)),
}


class TestReformulators(ReformulatorContract):
    @pytest.fixture(autouse=True, params=REFORMULATORS)
    def chosen(self, request: pytest.FixtureRequest) -> None:
        self.request = request

    def make(self) -> BaseReformulator:
        return REFORMULATORS[self.request.param](self.request)
