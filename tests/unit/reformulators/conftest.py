"""A language model in this process and the shipped prompts."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from llm_fakes import FakeService

from experiments.config.paths import CONF
from ragtune.core.interfaces import BaseReformulator
from ragtune.llm.prompts import PromptLibrary


@pytest.fixture
def asking() -> Callable[..., SimpleNamespace]:
    """Makes a reformulator of a class and the service that it asks: ``answer``, ``faults`` and ``llm`` options."""
    prompts = PromptLibrary(CONF / "prompts.yaml")

    def make(
        kind: type[BaseReformulator], answer: str | None = None, faults: Any = None, llm: Any = None, **options: Any
    ) -> SimpleNamespace:
        service = FakeService(None if answer is None else lambda chat: answer, faults, latency_ms=10.0)
        return SimpleNamespace(reformulator=kind(service.client(**(llm or {})), prompts, **options), service=service)

    return make
