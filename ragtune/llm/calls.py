"""Calls and their outcomes: sent, recorded, or replayed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from ragtune.core.errors import CacheMissError, InputError, LLMError
from ragtune.core.plain import well_formed
from ragtune.core.tokens import count_tokens
from ragtune.core.types import FREE, CostObject
from ragtune.llm.cache import AnswerCache, RecordedAnswer, RecordedFailure
from ragtune.llm.errors import AnswerError, ServiceError
from ragtune.llm.jsontext import UnusableJSON, parse_json
from ragtune.llm.parallel import map_all
from ragtune.llm.transport import Deadline, Reply, Transport
from ragtune.llm.types import AnswerLimit, ChatResult, EmbeddingResult, JsonResult, Message, Price, T
from ragtune.llm.wire import read_completion, read_embeddings

_TEXTS_A_REQUEST = 64
_START_CHARS = 60
_SHOWN_CHARS = 120
_CUT_OFF = ("length", "max_tokens", "max_output_tokens", "model_length")  # as servers call it
_TOO_LONG = re.compile(r"max_(?:completion_)?tokens|context", re.IGNORECASE)


@dataclass(frozen=True)
class Parameters:
    """Parameters of every request of a client; see :class:`ragtune.llm.client.LLMClient`."""

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
        """Everything that the answer depends on: the request, and the schema even where it is not sent."""
        schema = self.schema and {"name": self.schema.__name__, "schema": self.schema.model_json_schema()}
        return {**self.body(parameters), "schema": schema}

    def _response_format(self, json_mode: str) -> dict[str, Any] | None:
        if self.schema is None or json_mode == "none":
            return None
        if json_mode == "json_object":
            return {"type": "json_object"}
        schema = {"name": self.schema.__name__, "schema": self.schema.model_json_schema()}
        return {"type": "json_schema", "json_schema": schema}


@dataclass
class Caller:
    """Answers calls from the service or from the record, as the mode says.

    Attributes:
        transport: sends requests; variants of a client share it.
        parameters: parameters of every request.
        price: price of the model's tokens.
        mode: ``live``, ``record`` or ``replay``.
        cache: the record of answers; None in mode ``live``.
    """

    transport: Transport
    parameters: Parameters
    price: Price
    mode: str
    cache: AnswerCache | None

    def deadline(self, within_ms: float = math.inf) -> Deadline:
        """The deadline of a call that may take ``within_ms`` milliseconds from now."""
        return Deadline(self.transport.clock, within_ms)

    def prepare(self) -> None:
        """Open the record, import the library and open a connection, where calls may be sent.

        Raises:
            InputError: if the record cannot be used, or in mode ``live`` no call can be sent. Recorded answers need
                neither key nor library.
        """
        if self.cache is not None:
            self.cache.check()
        if self.mode != "replay":
            with suppress(InputError) if self.mode == "record" else nullcontext():
                self.transport.connect()

    def ask(self, call: ChatCall, deadline: Deadline) -> ChatResult:
        """Return the answer, usable or not.

        Raises:
            ServiceError: if there is no answer.
            CacheMissError: in replay, if the call was never recorded.
        """
        if self.cache is None:
            return self._send(call, deadline).result(self.price, cached=False)
        key = AnswerCache.key("chat", call.identity(self.parameters))
        known = self.cache.get([key]).get(key)
        if isinstance(known, RecordedAnswer) or (isinstance(known, RecordedFailure) and self.mode == "replay"):
            return self._recorded(known, deadline)
        if self.mode == "replay":
            text = call.messages[-1].content
            start = json.dumps(text[:_START_CHARS] + ("..." if len(text) > _START_CHARS else ""), ensure_ascii=False)
            raise CacheMissError(
                f"{self.cache.path} holds no answer of {self.parameters.model!r} with key {key.hex()[:16]} to {start}: "
                "run it once with mode=record"
            )
        try:
            answer = self._send(call, deadline)
        except ServiceError as error:
            self.cache.put({key: RecordedFailure.of(error)})
            raise
        self.cache.put({key: answer})
        return answer.result(self.price, cached=False)

    def embed(self, texts: Sequence[str], at_once: int) -> EmbeddingResult:
        """See :meth:`ragtune.llm.client.LLMClient.embed`."""
        distinct = list(dict.fromkeys(well_formed(text) for text in texts))
        if distinct and self.mode == "replay":
            raise CacheMissError("mode='replay' sends nothing, and embeddings are not recorded: use record or live")
        batches = [distinct[i : i + _TEXTS_A_REQUEST] for i in range(0, len(distinct), _TEXTS_A_REQUEST)]
        vectors: dict[str, NDArray[np.float32]] = {}
        cost = FREE
        for some, outcome in zip(batches, map_all(self._fetch, batches, at_once), strict=True):
            if isinstance(outcome, LLMError):
                raise outcome
            vectors |= zip(some, outcome[0], strict=True)
            cost += outcome[1]
        rows = [vectors[well_formed(text)] for text in texts]
        return EmbeddingResult(vectors=np.stack(rows) if rows else np.zeros((0, 0), dtype=np.float32), cost=cost)

    def _fetch(self, texts: list[str]) -> tuple[NDArray[np.float32], CostObject]:
        body = {"model": self.parameters.model, "input": texts, "encoding_format": "float", **self.parameters.extra}
        reply = self.post("embeddings", body, lambda got: read_embeddings(got, len(texts)), self.deadline())
        vectors, usage = reply.body
        tokens = sum(map(count_tokens, texts)) if usage.prompt_tokens is None else usage.prompt_tokens
        tokens += reply.wasted.prompt_tokens or 0
        return vectors, CostObject(tokens=tokens, calls=1, latency_ms=reply.latency_ms, usd=self.price.usd(tokens, 0))

    def post(self, call: str, body: Mapping[str, Any], parse: Callable[[Any], Any], deadline: Deadline) -> Reply[Any]:
        """See :meth:`Transport.post`; errors carry the price of their tokens."""
        try:
            return self.transport.post(call, body, parse, deadline)
        except ServiceError as error:
            error.usd = self.price.usd(error.prompt_tokens, error.completion_tokens)
            raise

    def close(self) -> None:
        """Close all connections; they reopen on use."""
        self.transport.close()
        if self.cache is not None:
            self.cache.close()

    def _recorded(self, known: RecordedAnswer | RecordedFailure, deadline: Deadline) -> ChatResult:
        """The recorded outcome, which is late where it took longer than the time that is left."""
        left_ms = deadline.left_ms
        if known.latency_ms > left_ms:
            message = (
                f"the recorded answer took {known.latency_ms:.0f} ms, more than the {left_ms:.0f} ms that were left"
            )
            raise ServiceError(message, "deadline", known.attempts, left_ms, cached=True)
        if isinstance(known, RecordedFailure):
            raise known.error(self.price)
        return known.result(self.price, cached=True)

    def _send(self, call: ChatCall, deadline: Deadline) -> RecordedAnswer:
        try:
            reply = self.post("chat", call.body(self.parameters), read_completion, deadline)
        except ServiceError as error:
            if error.kind == "rejected" and _TOO_LONG.search(str(error)):
                error.args = (f"{error}; thinking_tokens={call.limit.thinking} may be too many",)
            raise
        answer, wasted = reply.body, reply.wasted
        prompt, written = answer.usage.prompt_tokens, answer.usage.completion_tokens
        is_estimated = prompt is None or written is None
        if prompt is None:
            prompt = sum(count_tokens(message.content) for message in call.messages)
        if written is None:
            written = count_tokens(answer.text) + count_tokens(answer.refusal)
        return RecordedAnswer(
            text=answer.text,
            refusal=answer.refusal,
            model=answer.model or self.parameters.model,
            finish_reason=answer.finish_reason,
            prompt_tokens=prompt + (wasted.prompt_tokens or 0),
            completion_tokens=written + (wasted.completion_tokens or 0),
            latency_ms=reply.latency_ms,
            attempts=reply.attempts,
            is_estimated=is_estimated,
        )


def require_usable(result: ChatResult, limit: AnswerLimit) -> ChatResult:
    """Return ``result``, if it is a whole answer.

    Raises:
        AnswerError: if it is a refusal, cut off, or empty.
    """
    if result.refusal or result.finish_reason == "content_filter":
        raise AnswerError(f"{result.model} refused: {_start(result.refusal or 'content filter')}", "refusal", result)
    if result.finish_reason.lower() in _CUT_OFF:
        raise AnswerError(
            f"{result.model} was cut off after {result.completion_tokens} tokens: {limit.advice}", "truncated", result
        )
    if not result.text.strip():
        why = f" after {result.completion_tokens} tokens; if these were thoughts, {limit.advice}"
        raise AnswerError(
            f"{result.model} gave an empty answer{why if result.completion_tokens else ''}", "empty", result
        )
    return result


def require_json(result: ChatResult, schema: type[T]) -> JsonResult[T]:
    """Return ``result`` with its JSON as a ``schema``.

    Raises:
        AnswerError: if it holds no such JSON.
    """
    given = {entry.name: getattr(result, entry.name) for entry in fields(ChatResult)}
    try:
        return JsonResult(**given, parsed=parse_json(result.text, schema))
    except UnusableJSON as flaw:
        raise AnswerError(f"{result.model} answered {_start(result.text)}: {flaw}", flaw.kind, result) from None


def _start(text: str) -> str:
    plain = " ".join(text.split())
    return repr(plain[:_SHOWN_CHARS] + ("..." if len(plain) > _SHOWN_CHARS else ""))
