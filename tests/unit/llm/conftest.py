from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ragtune.core.request.clock import VirtualClock
from ragtune.llm.client import LLMClient


class Sleeper:
    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.waits: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.waits.append(seconds)
        self._clock.advance(seconds * 1000.0)


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def sleeper(clock: VirtualClock) -> Sleeper:
    return Sleeper(clock)


@pytest.fixture
def make_client(llm_server: Any, clock: VirtualClock, sleeper: Sleeper) -> Iterator[Callable[..., LLMClient]]:
    made: list[LLMClient] = []

    def make(**options: Any) -> LLMClient:
        defaults = {"model": "test", "base_url": llm_server.url, "mode": "live", "clock": clock, "sleep": sleeper}
        made.append(LLMClient(**(defaults | options)))
        return made[-1]

    yield make
    for client in made:
        client.close()
