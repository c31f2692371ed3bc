"""A language model in this process and the shipped prompts."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from llm_fakes import FakeService

from experiments.config.paths import CONF
from ragtune.core.interfaces import BaseReranker
from ragtune.llm.prompts import PromptLibrary


@pytest.fixture(scope="session")
def prompts() -> PromptLibrary:
    return PromptLibrary(CONF / "prompts.yaml")


@pytest.fixture
def asking(prompts: PromptLibrary) -> Callable[..., SimpleNamespace]:
    """Makes a reranker of a class and the service that it asks: ``answer``, ``faults`` and ``llm`` options."""

    def make(kind: type[BaseReranker], answer: Any = None, faults: Any = None, llm: Any = None, **options: Any) -> Any:
        fixed = answer if callable(answer) or answer is None else lambda chat: str(answer)
        service = FakeService(fixed, faults, latency_ms=10.0)
        client = service.client(**(llm or {}))
        return SimpleNamespace(reranker=kind(client, prompts, **options), service=service, client=client)

    return make
