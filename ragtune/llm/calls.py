"""Calls and their outcomes: sent, recorded, or replayed."""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from ragtune.core.errors import CacheMissError, InputError
from ragtune.core.request.clock import Clock
from ragtune.core.tokens import count_tokens
from ragtune.core.types import CostObject
from ragtune.llm.cache import AnswerCache, RecordedAnswer, RecordedFailure
from ragtune.llm.deadline import Deadline
from ragtune.llm.errors import ServiceError
from ragtune.llm.limits import AnswerLimit
from ragtune.llm.transport import Reply, Settings, Transport
from ragtune.llm.types import ChatResult, Message, Price
from ragtune.llm.wire import Completion, read_completion

_START_CHARS = 60
_TOO_LONG = re.compile(r"max_(?:completion_)?tokens|context", re.IGNORECASE)


@dataclass(frozen=True)
class Parameters:
    """What every request of a client carries; see :class:`ragtune.llm.client.LLMClient`."""

    model: str
    temperature: float | None
    seed: int | None
    max_tokens_field: str
    json_mode: str
    extra: Mapping[str, Any]


@dataclass(frozen=True)
class ChatCall:
    """One conversation to be answered.

    Attributes:
        messages: the conversation.
        limit: the most tokens that the answer and the thoughts before it may have.
        schema: the model that the answer must be an instance of; None for free text.
    """

    messages: tuple[Message, ...]
    limit: AnswerLimit
    schema: type[BaseModel] | None = None

    def body(self, parameters: Parameters) -> dict[str, Any]:
        """The request in JSON."""
        body: dict[str, Any] = {
            "model": parameters.model,
            "messages": [{"role": message.role, "content": message.content} for message in self.messages],
            parameters.max_tokens_field: self.limit.total,
            "temperature": parameters.temperature,
            "seed": parameters.seed,
            "response_format": self._response_format(parameters.json_mode),
        }
        return {name: value for name, value in body.items() if value is not None} | dict(parameters.extra)

    def identity(self, parameters: Parameters) -> dict[str, Any]:
        """All that the answer depends on: the request, and the schema even where the server is not told of it."""
        schema = self.schema and {"name": self.schema.__name__, "schema": self.schema.model_json_schema()}
        return {**self.body(parameters), "schema": schema}

    def _response_format(self, json_mode: str) -> dict[str, Any] | None:
        if self.schema is None or json_mode == "none":
            return None
        if json_mode == "json_object":
            return {"type": "json_object"}
        schema = {"name": self.schema.__name__, "schema": self.schema.model_json_schema()}
        return {"type": "json_schema", "json_schema": schema}


class Caller:
    """Answers calls as the mode says: from the service, from the record, or from one after the other.

    Args:
        settings, clock, sleep: what :class:`ragtune.llm.transport.Transport` is made with.
        parameters: what every request carries.
        price: price of the model's tokens.
        mode: ``live``, ``record`` or ``replay``.
        cache: the record of answers; None in mode ``live``.
        lender: caller whose connections are shared; None opens connections of its own.
    """

    def __init__(
        self,
        settings: Settings,
        parameters: Parameters,
        price: Price,
        mode: str,
        cache: AnswerCache | None,
        clock: Clock,
        sleep: Callable[[float], None],
        lender: Caller | None = None,
    ) -> None:
        self.parameters = parameters
        self.price = price
        self.mode = mode
        self.cache = cache
        self._lender = lender
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._transport: Transport | None = None
        self._flights: dict[bytes, tuple[threading.Lock, list[None]]] = {}

    @property
    def host(self) -> str:
        """Host and path of the service, without user or password."""
        return self._settings.host

    def deadline(self, within_ms: float = math.inf) -> Deadline:
        """The deadline of a call that may take ``within_ms`` milliseconds from now."""
        return Deadline(self._clock, within_ms)

    def prepare(self) -> None:
        """Open the record, import the library and open a connection, where calls may be sent.

        Raises:
            InputError: if the record cannot be used; where all calls are sent, if none can be. What is recorded needs
                neither key nor library.
        """
        if self.cache is not None:
            self.cache.check()
        if self.mode != "replay":
            with suppress(InputError) if self.mode == "record" else nullcontext():
                self._connected().connect()

    def ask(self, call: ChatCall, deadline: Deadline) -> tuple[ChatResult, str]:
        """The answer, usable or not, and what the model said by way of refusal (empty if it did not refuse).

        What was recorded took its time when it was made: where that is more than is left, it is late again.

        Raises:
            ServiceError: if there is no answer.
            CacheMissError: in replay, if the call was never recorded.
        """
        key = AnswerCache.key("chat", call.identity(self.parameters))
        if self.cache is None:
            return self._result(self._send(call, key, deadline), cached=False)
        with self._alone(key):
            known = self.cache.answer(key)
            if known and (isinstance(known, RecordedAnswer) or self.mode == "replay"):
                return self._recorded(known, deadline)
            if self.mode == "replay":
                raise self.miss(key, call.messages[-1].content)
            try:
                answer = self._send(call, key, deadline)
            except ServiceError as error:
                self.cache.put_failure(key, RecordedFailure.of(error))
                raise
            self.cache.put({key: answer})
            return self._result(answer, cached=False)

    def miss(self, key: bytes, text: str) -> CacheMissError:
        """The error of a call that replay does not know."""
        start = json.dumps(text[:_START_CHARS] + ("..." if len(text) > _START_CHARS else ""), ensure_ascii=False)
        where = self.cache.path if self.cache else "the record"
        return CacheMissError(
            f"{where} holds no answer of {self.parameters.model!r} with key {key.hex()[:16]} to {start}: "
            "run it once with mode=record"
        )

    def post(
        self, call: str, body: Mapping[str, Any], salt: bytes, parse: Callable[[Any], Any], deadline: Deadline
    ) -> Reply[Any]:
        """See :meth:`Transport.post`; errors carry the price of what they cost."""
        try:
            return self._connected().post(call, body, salt, parse, deadline)
        except ServiceError as error:
            failed = error.priced(self.price)
        raise failed

    def variant(self, parameters: Parameters, price: Price) -> Caller:
        """A caller with other parameters over the same connections, limits and record."""
        return Caller(
            self._settings, parameters, price, self.mode, self.cache, self._clock, self._sleep, self._lender or self
        )

    def close(self) -> None:
        """Close all connections; they reopen on use."""
        if self._lender is not None:
            self._lender.close()
        if self._transport is not None:
            self._transport.close()
        if self.cache is not None:
            self.cache.close()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"} | {
            "_transport": None,
            "_flights": {},
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    @contextmanager
    def _alone(self, key: bytes) -> Iterator[None]:
        """No two threads ask the same thing at once: the second reads what the first has paid for."""
        with self._lock:
            lock, waiting = self._flights.setdefault(key, (threading.Lock(), []))
            waiting.append(None)
        try:
            with lock:
                yield
        finally:
            with self._lock:
                waiting.pop()
                if not waiting:
                    del self._flights[key]

    def _connected(self) -> Transport:
        """The transport, made on first use, hence never in replay."""
        if self._lender is not None:
            return self._lender._connected()
        with self._lock:
            if self._transport is None:
                self._transport = Transport(self._settings, self._clock, self._sleep)
            return self._transport

    def _recorded(self, known: RecordedAnswer | RecordedFailure, deadline: Deadline) -> tuple[ChatResult, str]:
        took_ms, left_ms = known.wasted_ms, deadline.left_ms
        if isinstance(known, RecordedAnswer):
            took_ms += known.latency_ms
        if not deadline.spend_recorded(took_ms):
            message = f"the recorded answer took {took_ms:.0f} ms, more than the {left_ms:.0f} ms that were left"
            raise ServiceError(message, "deadline", known.attempts, left_ms, cached=True)
        if isinstance(known, RecordedFailure):
            raise known.error(self.price)
        return self._result(known, cached=True)

    def _send(self, call: ChatCall, key: bytes, deadline: Deadline) -> RecordedAnswer:
        reply = self._posted(call, key, deadline)
        completion = reply.body
        prompt, written = completion.usage.prompt_tokens, completion.usage.completion_tokens
        is_estimated = prompt is None or written is None
        if prompt is None:
            prompt = sum(count_tokens(message.content) for message in call.messages)
        if written is None:
            written = count_tokens(completion.text) + count_tokens(completion.refusal)
        return RecordedAnswer(
            text=completion.text,
            refusal=completion.refusal,
            model=completion.model or self.parameters.model,
            finish_reason=completion.finish_reason,
            prompt_tokens=prompt + (reply.wasted.prompt_tokens or 0),
            completion_tokens=written + (reply.wasted.completion_tokens or 0),
            latency_ms=reply.latency_ms,
            attempts=reply.attempts,
            wasted_ms=reply.wasted_ms,
            is_estimated=is_estimated,
        )

    def _posted(self, call: ChatCall, key: bytes, deadline: Deadline) -> Reply[Completion]:
        try:
            return self.post("chat", call.body(self.parameters), key, read_completion, deadline)
        except ServiceError as error:
            is_too_long = error.kind == "rejected" and _TOO_LONG.search(str(error))
            failed = error.with_hint(f"thinking_tokens={call.limit.thinking} may be too many") if is_too_long else error
        raise failed

    def _result(self, answer: RecordedAnswer, cached: bool) -> tuple[ChatResult, str]:
        usd = self.price.usd(answer.prompt_tokens, answer.completion_tokens)
        tokens = answer.prompt_tokens + answer.completion_tokens
        elapsed = answer.latency_ms + answer.wasted_ms
        paid = CostObject() if cached else CostObject(tokens=tokens, calls=1, latency_ms=elapsed, usd=usd)
        result = ChatResult(
            text=answer.text,
            model=answer.model,
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
            usd=usd,
            latency_ms=answer.latency_ms,
            cached=cached,
            finish_reason=answer.finish_reason,
            attempts=answer.attempts,
            wasted_ms=answer.wasted_ms,
            is_estimated=answer.is_estimated,
            paid=paid,
        )
        return result, answer.refusal
