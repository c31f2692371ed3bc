"""Calls of a language model, the durable record of their answers, and what answers must be."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from ragtune.core.errors import CacheMissError, ConfigError, LLMError
from ragtune.core.plain import well_formed
from ragtune.core.tokens import count_tokens
from ragtune.core.types import FREE
from ragtune.data.caches.diskcache import resolve_cache_dir
from ragtune.data.caches.sqlitecache import SqliteCache
from ragtune.llm.errors import AnswerError, ServiceError
from ragtune.llm.jsontext import UnusableJSON, parse_json
from ragtune.llm.transport import Deadline, Reply, map_all
from ragtune.llm.types import AnswerLimit, ChatResult, EmbeddingResult, JsonResult, Message, Price, T
from ragtune.llm.wire import Completion

_TEXTS_A_REQUEST = 64
_SHOWN_CHARS = 120
_BILL = ("attempts", "latency_ms", "prompt_tokens", "completion_tokens")
_CUT_OFF = ("length", "max_tokens", "max_output_tokens", "model_length")  # as servers call it


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
    """One conversation to be answered."""

    messages: tuple[Message, ...]
    limit: AnswerLimit
    schema: type[BaseModel] | None = None

    def body(self, parameters: Parameters) -> dict[str, Any]:
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


def read_answer(reply: Reply[Completion], call: ChatCall, model: str, price: Price) -> ChatResult:
    """The answer with its bill; tokens that the server does not report are counted here."""
    answer, wasted = reply.body, reply.wasted
    text, refusal = answer.text or "", answer.refusal or ""
    prompt, written = answer.usage.prompt_tokens, answer.usage.completion_tokens
    is_estimated = prompt is None or written is None
    if prompt is None:
        prompt = sum(count_tokens(message.content) for message in call.messages)
    if written is None:
        written = count_tokens(text) + count_tokens(refusal)
    prompt, written = prompt + (wasted.prompt_tokens or 0), written + (wasted.completion_tokens or 0)
    return ChatResult(
        text=text,
        refusal=refusal,
        model=answer.model or model,
        finish_reason=answer.finish_reason or "stop",
        prompt_tokens=prompt,
        completion_tokens=written,
        usd=price.usd(prompt, written),
        latency_ms=reply.latency_ms,
        attempts=reply.attempts,
        is_estimated=is_estimated,
        cached=False,
    )


class AnswerRecord:
    """Recorded calls in one SQLite file, under hashes; unusable answers and failed calls replay as they were."""

    def __init__(self, mode: str, cache_dir: str | Path | None) -> None:
        folder = resolve_cache_dir(cache_dir)
        if folder is None:
            raise ConfigError(f"llm cache_dir=None with mode={mode!r}: allowed is a folder, or mode=live")
        self._store = SqliteCache[str](folder / "llm" / "answers.sqlite", "answer", "value TEXT NOT NULL")
        self._replays = mode == "replay"

    def prepare(self) -> None:
        """Open the file now, if anything may be written."""
        if not self._replays:
            self._store.check()

    def close(self) -> None:
        self._store.close()

    def answer(
        self, call: ChatCall, parameters: Parameters, price: Price, deadline: Deadline, ask: Callable[[], ChatResult]
    ) -> ChatResult:
        """The recorded answer; where there is none, that of ``ask``, which is recorded."""
        key = SqliteCache.key("chat", json.dumps(call.identity(parameters), sort_keys=True, ensure_ascii=False))
        known = self._read(key, price)
        if isinstance(known, ChatResult) or (known is not None and self._replays):
            return _in_time(known, deadline.left_ms)
        if self._replays:
            start = json.dumps(textwrap.shorten(call.messages[-1].content, 60), ensure_ascii=False)
            raise CacheMissError(
                f"{self._store.path} holds no answer of {parameters.model!r} with key {key.hex()[:16]} to {start}: "
                "run it once with mode=record"
            )
        try:
            result = ask()
        except ServiceError as error:
            bill = {name: getattr(error, name) for name in _BILL}
            self._store.put({key: json.dumps({"kind": error.kind, "message": str(error), **bill})})
            raise
        kept = {name: value for name, value in asdict(result).items() if name not in ("usd", "cached")}
        self._store.put({key: json.dumps(kept)})
        return result

    def _read(self, key: bytes, price: Price) -> ChatResult | ServiceError | None:
        if self._replays and not self._store.path.exists():
            return None
        value = self._store.get([key]).get(key)
        if value is None:
            return None
        record = json.loads(value)
        usd = price.usd(record["prompt_tokens"], record["completion_tokens"])
        if "kind" not in record:
            return ChatResult(**record, usd=usd, cached=True)
        error = ServiceError(**record, cached=True)
        error.usd = usd
        return error


def _in_time(known: ChatResult | ServiceError, left_ms: float) -> ChatResult:
    """The recorded answer, unless it took longer than the time that is left."""
    if known.latency_ms > left_ms:
        late = f"the recorded answer took {known.latency_ms:.0f} ms, more than the {left_ms:.0f} ms that were left"
        raise ServiceError(late, "deadline", known.attempts, left_ms, cached=True)
    if isinstance(known, ServiceError):
        raise known
    return known


def embed_all(texts: Sequence[str], ask: Callable[[list[str]], EmbeddingResult], at_once: int) -> EmbeddingResult:
    """The vectors of any number of texts; ``ask`` sends the distinct ones of a request."""
    wanted = [well_formed(text) for text in texts]
    distinct = list(dict.fromkeys(wanted))
    batches = [distinct[i : i + _TEXTS_A_REQUEST] for i in range(0, len(distinct), _TEXTS_A_REQUEST)]
    vectors: dict[str, NDArray[np.float32]] = {}
    cost = FREE
    for some, outcome in zip(batches, map_all(ask, batches, at_once), strict=True):
        if isinstance(outcome, LLMError):
            raise outcome
        vectors |= zip(some, outcome.vectors, strict=True)
        cost += outcome.cost
    rows = np.stack([vectors[text] for text in wanted]) if wanted else np.zeros((0, 0), dtype=np.float32)
    return EmbeddingResult(vectors=rows, cost=cost)


def require_usable(result: ChatResult, limit: AnswerLimit) -> ChatResult:
    """Return ``result``, if it is a whole answer."""
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
    """Return ``result`` with its JSON as a ``schema``."""
    given = {entry.name: getattr(result, entry.name) for entry in fields(ChatResult)}
    try:
        return JsonResult(**given, parsed=parse_json(result.text, schema))
    except UnusableJSON as flaw:
        raise AnswerError(f"{result.model} answered {_start(result.text)}: {flaw}", flaw.kind, result) from None


def _start(text: str) -> str:
    plain = " ".join(text.split())
    return repr(plain[:_SHOWN_CHARS] + ("..." if len(plain) > _SHOWN_CHARS else ""))
