"""A language model in this process: the client's own code, without HTTP, with an exact bill.

For property tests that make thousands of calls; everything else talks to ``llm_server``.
"""

import math
import threading
from collections.abc import Callable, Mapping
from typing import Any

from llm_server import DEFAULT_RULES, Chat, spoil

from ragtune.core.tokens import count_tokens
from ragtune.llm.client import LLMClient
from ragtune.llm.errors import ServiceError
from ragtune.llm.transport import Reply

PRICE = {"prompt": 0.001, "completion": 0.002}


class FakeService:
    """Answers chats by the test server's rules, or by ``answer``; counts tokens as the client prices them."""

    def __init__(
        self,
        answer: Callable[[Chat], str] | None = None,
        faults: list[str | None] | None = None,
        latency_ms: float = 0.0,
    ) -> None:
        self._answer = answer or (lambda chat: next(r.answer(chat) for r in DEFAULT_RULES if r.applies(chat)))
        self._lock = threading.Lock()
        self.faults = list(faults or [])
        self.latency_ms = latency_ms
        self.chats: list[tuple[Chat, str]] = []
        self.billed_tokens = 0
        self.calls = 0
        self.deadlines_ms: list[float] = []

    def client(self, **options: Any) -> LLMClient:
        defaults: dict[str, Any] = {"model": "test", "mode": "live", "concurrency": 1, "prices": {"test": PRICE}}
        client = LLMClient(**(defaults | options))
        client._transport.post = self._post  # type: ignore[method-assign]
        client._transport.connect = lambda: None  # type: ignore[method-assign,assignment,return-value]
        return client

    def _post(
        self, path: str, body: Mapping[str, Any], parse: Callable[[Any], Any], deadline: Any = None
    ) -> Reply[Any]:
        with self._lock:
            self.calls += 1
            self.deadlines_ms.append(math.inf if deadline is None else deadline.left_ms)
            fault = self.faults.pop(0) if self.faults else None
            if fault == "server_error":
                raise ServiceError("the service broke", "unavailable", attempts=1)
            chat = Chat(body)
            message, finish = spoil(fault or "", self._answer(chat))
            written = message["content"] or message["refusal"] or ""
            prompt = sum(count_tokens(m["content"]) for m in chat.messages)
            completion = count_tokens(written)
            if completion > body["max_tokens"]:
                completion, finish = body["max_tokens"], "length"
            self.chats.append((chat, written))
            self.billed_tokens += prompt + completion
        usage = {"prompt_tokens": prompt, "completion_tokens": completion}
        choice = {"message": message, "finish_reason": finish}
        return Reply(parse({"choices": [choice], "model": body["model"], "usage": usage}), self.latency_ms, 1)
