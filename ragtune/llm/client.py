"""One client for every OpenAI-compatible server: priced, recorded, replayable."""

from __future__ import annotations

import copy
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from ragtune.core.arguments import check_choice, check_count, check_number
from ragtune.core.errors import CacheMissError, ConfigError, InputError, LLMError
from ragtune.core.request.clock import Clock, MonotonicClock
from ragtune.core.tokens import count_tokens
from ragtune.core.types import FREE, CostObject
from ragtune.data.caches.diskcache import AUTO
from ragtune.llm.calls import (
    AnswerRecord,
    ChatCall,
    Parameters,
    embed_all,
    read_answer,
    require_json,
    require_usable,
)
from ragtune.llm.errors import AnswerError, ServiceError
from ragtune.llm.transport import Deadline, Reply, Settings, Transport, map_all
from ragtune.llm.types import AnswerLimit, ChatResult, EmbeddingResult, JsonResult, Message, Price, T
from ragtune.llm.wire import Completion, read_embeddings

R = TypeVar("R")

_LIMIT_FIELDS = ("max_tokens", "max_completion_tokens")
_TOO_LONG = re.compile(r"max_(?:completion_)?tokens|context", re.IGNORECASE)

_Billed = ChatResult | AnswerError | ServiceError


class LLMClient:
    """Chat and embeddings of one model on an OpenAI-compatible server (OpenAI, vLLM, llama.cpp, Ollama, ...).

    Requests are retried on 429, 5xx, timeouts, lost connections and replies that cannot be read. Answers are recorded
    under a hash of model, messages and parameters, but not of the server: use two cache folders for two servers that
    call different models alike. Unusable answers are recorded too, because they were paid for. Failed calls are
    recorded for replay.

    The API key is read from the environment when the connection is opened. It is not logged or recorded, and hidden
    where a reply repeats it. Instances are safe for threads and travel to other processes without connections.

    Args:
        model: name of the model, as the server spells it.
        base_url: ``http(s)://host[:port][/path]``; None takes ``OPENAI_BASE_URL``, which may hold a user and a
            password, else ``default_base_url``.
        default_base_url: address in the same form; None is OpenAI's.
        api_key_env: name of the environment variable that holds the key. It may be unset for servers that need no key.
        mode: ``live`` sends everything; ``record`` sends what is not recorded yet and records it; ``replay`` sends
            nothing, and a call that is not recorded is an error.
        cache_dir: folder of the record; ``auto`` takes the platform's; None is allowed in mode ``live`` only.
        temperature, seed: sampling of the server, each >= 0; None leaves it to the server.
        max_tokens: the most tokens of an answer, >= 1; a longer answer is cut off, which is an error.
        thinking_tokens: the most tokens of thoughts before an answer, >= 0; a request states the sum of both.
        max_tokens_field: name of that limit in the request: ``max_tokens`` or ``max_completion_tokens``.
        timeout_s: seconds that each attempt may take by the wall clock, from connecting to the last byte, > 0.
        max_retries: further attempts, >= 0.
        backoff_initial_s: seconds before the second attempt, >= 0. It doubles with every further one, up to 8 s; a
            server's ``Retry-After`` replaces it, up to 60 s.
        concurrency: requests under way at once, >= 1.
        breaker_failures: failures in a row after which nothing is sent for a while, >= 1.
        breaker_cooldown_s: seconds until a request may probe the service again, >= 0.
        prices: dollars per 1,000 tokens by model, ``{model: {prompt: p, completion: c}}``. None or empty: calls are
            free. A table that lacks ``model`` is refused, since a budget in dollars would never bind.
        json_mode: what asks the server for JSON: ``none`` (the prompt alone), ``json_object``, or ``json_schema``.
        ms_per_call: expected milliseconds a call, >= 0; 0 means unknown.
        extra: further fields of every request's body, without secrets.
        repair: deprecated, without effect; 1.1.0 removes it.
        clock, sleep: clock of durations and function that waits; None and the default take the machine's.

    Raises:
        ConfigError: on an argument out of range.

    Examples:
        >>> from ragtune.llm.client import LLMClient
        >>> client = LLMClient(model="qwen2.5", base_url="http://127.0.0.1:11434/v1")  # calls nothing yet
        >>> client.host
        '127.0.0.1:11434/v1'
    """

    def __init__(
        self,
        *,
        model: str,
        base_url: str | None = None,
        default_base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        mode: str = "record",
        cache_dir: str | Path | None = AUTO,
        temperature: float | None = 0.0,
        seed: int | None = 0,
        max_tokens: int = 512,
        thinking_tokens: int = 4096,
        max_tokens_field: str = "max_tokens",
        timeout_s: float = 30.0,
        max_retries: int = 4,
        backoff_initial_s: float = 0.5,
        concurrency: int = 4,
        breaker_failures: int = 5,
        breaker_cooldown_s: float = 2.0,
        prices: Mapping[str, Price | Mapping[str, float]] | None = None,
        json_mode: str = "none",
        ms_per_call: float = 0.0,
        extra: Mapping[str, Any] | None = None,
        repair: bool | None = None,
        clock: Clock | None = None,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        if repair is not None:
            warnings.warn("LLMClient(repair=...) has no effect; 1.1.0 removes it", DeprecationWarning, stacklevel=2)
        if not isinstance(model, str) or not model.strip():
            raise ConfigError(f"llm model={model!r}: allowed is the name of a model")
        self.model = model
        self.mode = check_choice("llm mode", mode, ("live", "record", "replay"))
        self.thinking_tokens = check_count("llm thinking_tokens", thinking_tokens)
        self._limit = AnswerLimit.of(max_tokens)
        self.ms_per_call = check_number("llm ms_per_call", ms_per_call, low=0.0)
        self._prices = dict(prices or {})
        self.price = Price.in_table(model, self._prices)
        settings = Settings(
            who="llm",
            base_url=base_url,
            default_base_url=default_base_url,
            api_key_env=api_key_env,
            timeout_s=timeout_s,
            max_retries=max_retries,
            backoff_initial_s=backoff_initial_s,
            concurrency=concurrency,
            breaker_failures=breaker_failures,
            breaker_cooldown_s=breaker_cooldown_s,
        )
        self.base_url, self.concurrency = settings.base_url, settings.concurrency
        self._parameters = Parameters(
            model=model,
            temperature=None if temperature is None else check_number("llm temperature", temperature, low=0.0),
            seed=None if seed is None else check_count("llm seed", seed),
            max_tokens_field=check_choice("llm max_tokens_field", max_tokens_field, _LIMIT_FIELDS),
            json_mode=check_choice("llm json_mode", json_mode, ("none", "json_object", "json_schema")),
            extra=dict(extra or {}),
        )
        self._transport = Transport(settings, clock or MonotonicClock(), sleep)
        self._record = None if mode == "live" else AnswerRecord(mode, cache_dir)

    def __repr__(self) -> str:
        return f"LLMClient(model={self.model!r}, host={self.host!r}, mode={self.mode!r})"

    @property
    def host(self) -> str:
        """``host[:port]/path`` of the service."""
        return self._transport.settings.host

    def variant(self, model: str | None = None, temperature: float | None = None) -> LLMClient:
        """This client asking another model or at another temperature, over the same connections, limits and record.

        Raises ConfigError if the price table lacks the model, or the temperature is below 0.
        """
        other, own = copy.copy(self), self._parameters
        heat = own.temperature if temperature is None else check_number("llm temperature", temperature, low=0.0)
        other.model = model or own.model
        other.price = Price.in_table(other.model, self._prices)
        other._parameters = replace(own, model=other.model, temperature=heat)
        return other

    def prepare(self) -> None:
        """Import the library and open a connection, so that the first call need not; nothing is sent.

        Raises ConfigError where ``live`` if the key is missing, MissingExtraError if the extra ``llm`` is not
        installed.
        """
        if self._record is not None:
            self._record.prepare()
        if self.mode != "replay":
            with suppress(InputError) if self.mode == "record" else nullcontext():  # what is recorded needs no key
                self._transport.connect()

    def chat(
        self, messages: Sequence[Message], *, max_tokens: int | AnswerLimit | None = None, within_ms: float = math.inf
    ) -> ChatResult:
        """Ask the model and return its answer.

        Args:
            messages: the conversation, one at least.
            max_tokens: the most tokens of this answer, thoughts aside; None takes the client's limit.
            within_ms: milliseconds that the whole call may take, retries and waits included. A recorded answer takes
                as long as it did when it was made.

        Raises:
            AnswerError: if the answer is cut off, a refusal, or empty; it carries the bill.
            ServiceError: if there is no answer.
            CacheMissError: in replay, if the call was never recorded.
        """
        return self._ask(messages, max_tokens, Deadline(self._transport.clock, within_ms))

    def chat_json(
        self,
        messages: Sequence[Message],
        schema: type[T],
        *,
        max_tokens: int | AnswerLimit | None = None,
        within_ms: float = math.inf,
    ) -> JsonResult[T]:
        """Ask the model and return its answer as a ``schema``, out of the prose and code fences around it.

        Arguments and errors are those of :meth:`chat`. ``schema`` is a Pydantic model, ``RootModel[list[...]]`` for a
        list; the prompt must say what JSON is wanted.
        """
        return require_json(self._ask(messages, max_tokens, Deadline(self._transport.clock, within_ms), schema), schema)

    def chat_json_many(
        self,
        conversations: Sequence[Sequence[Message]],
        schema: type[T],
        *,
        max_tokens: int | AnswerLimit | None = None,
        within_ms: float = math.inf,
    ) -> list[JsonResult[T] | LLMError]:
        """:meth:`chat_json` of each, ``concurrency`` at once; in order, a failed one as the error that it raised.

        All of them together may take ``within_ms``.
        """
        deadline = Deadline(self._transport.clock, within_ms)
        return map_all(
            lambda messages: require_json(self._ask(messages, max_tokens, deadline, schema), schema),
            conversations,
            self.concurrency,
        )

    def embed(self, texts: Sequence[str]) -> EmbeddingResult:
        """The texts' vectors, in requests of 64. Equal texts are sent once; nothing is recorded.

        Raises:
            ServiceError: if a request got no usable reply.
            CacheMissError: in replay, which sends nothing.
        """
        if texts and self.mode == "replay":
            raise CacheMissError("mode='replay' sends nothing, and embeddings are not recorded: use mode=live")
        return embed_all(texts, self._embedded, self.concurrency)

    def close(self) -> None:
        """Close all connections; they reopen on use."""
        self._transport.close()
        if self._record is not None:
            self._record.close()

    def expected_cost(self, messages: Sequence[Message], *, max_tokens: int | None = None) -> CostObject:
        """What to charge before a call: the prompt's tokens (counted by rule) and an answer of full length, without
        thoughts.
        """
        answer = (self._limit if max_tokens is None else AnswerLimit.of(max_tokens)).answer
        prompt = sum(count_tokens(message.content) for message in messages)
        usd = self.price.usd(prompt, answer)
        return CostObject(tokens=prompt + answer, calls=1, latency_ms=self.ms_per_call, usd=usd)

    @staticmethod
    def cost(outcome: ChatResult | LLMError) -> CostObject:
        """What to charge after a call, recorded or not; nothing for an error that carries no bill (a cache miss)."""
        return outcome.cost if isinstance(outcome, _Billed) else FREE

    @staticmethod
    def paid(outcome: ChatResult | LLMError) -> CostObject:
        """What the call really cost now: nothing where it was recorded."""
        return outcome.paid if isinstance(outcome, _Billed) else FREE

    @staticmethod
    def is_estimated(outcome: ChatResult | LLMError) -> bool:
        """Whether tokens that are charged were counted here by rule, because the server did not report them."""
        result = outcome.result if isinstance(outcome, AnswerError) else outcome
        return isinstance(result, ChatResult) and result.is_estimated

    def _ask(
        self,
        messages: Sequence[Message],
        max_tokens: int | AnswerLimit | None,
        deadline: Deadline,
        schema: type[BaseModel] | None = None,
    ) -> ChatResult:
        if not messages:
            raise ConfigError("llm messages=[]: allowed is one message or more")
        limit = self._limit if max_tokens is None else AnswerLimit.of(max_tokens)
        if limit.thinking is None:
            limit = replace(limit, thinking=self.thinking_tokens)
        call = ChatCall(tuple(messages), limit, schema)
        ask = partial(self._send, call, deadline)
        record = self._record
        answer = ask() if record is None else record.answer(call, self._parameters, self.price, deadline, ask)
        return require_usable(answer, limit)

    def _send(self, call: ChatCall, deadline: Deadline) -> ChatResult:
        body = call.body(self._parameters)
        reply = self._post("/chat/completions", body, Completion.model_validate, deadline, call.limit.thinking)
        return read_answer(reply, call, self.model, self.price)

    def _embedded(self, texts: list[str]) -> EmbeddingResult:
        body = {"model": self.model, "input": texts, "encoding_format": "float", **self._parameters.extra}
        deadline = Deadline(self._transport.clock)
        reply = self._post("/embeddings", body, lambda got: read_embeddings(got, len(texts)), deadline)
        vectors, usage = reply.body
        tokens = sum(map(count_tokens, texts)) if usage.prompt_tokens is None else usage.prompt_tokens
        tokens += reply.wasted.prompt_tokens or 0
        cost = CostObject(tokens=tokens, calls=1, latency_ms=reply.latency_ms, usd=self.price.usd(tokens, 0))
        return EmbeddingResult(vectors=vectors, cost=cost)

    def _post(
        self,
        path: str,
        body: Mapping[str, Any],
        parse: Callable[[Any], R],
        deadline: Deadline,
        thoughts: int | None = 0,
    ) -> Reply[R]:
        try:
            return self._transport.post(path, body, parse, deadline)
        except ServiceError as error:
            error.usd = self.price.usd(error.prompt_tokens, error.completion_tokens)
            if thoughts and error.kind == "rejected" and _TOO_LONG.search(str(error)):
                error.args = (f"{error}; thinking_tokens={thoughts} may be too many",)
            raise
