"""An OpenAI-compatible server on this machine that answers from rules and fails on demand: real HTTP, no model.

It reranks too, in every dialect (``rerank_shapes.py``): at ``llm_server.rerank_url(dialect)``. The first rule whose
predicate holds answers; ``DEFAULT_RULES`` know the prompts of ``conf/prompts.yaml``. Faults are taken from ``faults``
in the order of requests (None is no fault), then from ``random_faults``.
"""

import asyncio
import gzip
import hashlib
import json
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from patience import HANG_S
from rerank_shapes import SHAPES

from ragtune.core.tokens import count_tokens

FAULTS = (
    "rate_limit", "server_error", "slow", "drop", "garbage", "unauthorized",
    "cut_off", "malformed_json", "wrong_enum", "wrong_count", "refusal", "empty",
)  # fmt: skip
"""The first six fail the request; the others answer, with a bill, what cannot be used."""

HOSTILE = ("drip", "endless", "bomb", "strange_coding", "redirect", "no_choices")
"""What no honest server does: only on demand, never at random. The last one bills for nothing."""

DIMS = 16


@dataclass(frozen=True)
class Fault:
    """One thing to go wrong, of ``FAULTS`` or ``HOSTILE``; ``slow`` waits for a time or for an event."""

    kind: str
    retry_after: str | None = "0"
    delay_s: float = 1.0
    until: threading.Event | None = None
    status: int = 500

    def __post_init__(self) -> None:
        assert self.kind in FAULTS + HOSTILE, self.kind


@dataclass(frozen=True)
class Chat:
    """A chat request as rules see it."""

    body: Mapping[str, Any]

    @property
    def messages(self) -> list[Mapping[str, str]]:
        return list(self.body["messages"])

    @property
    def prompt(self) -> str:
        return next((m["content"] for m in reversed(self.messages) if m["role"] == "user"), "")

    @property
    def text(self) -> str:
        return "\n".join(message["content"] for message in self.messages)

    @cached_property
    def fenced(self) -> dict[str, str]:
        """Texts behind fences (``ragtune.llm.prompts.fence``) by label."""
        found = re.findall(r"\[\[begin ([a-z0-9_ ]+) ([0-9a-f]{12})\]\]\n(.*?)\n\[\[end \1 \2\]\]", self.text, re.S)
        return {label: content for label, _, content in found}


class Rule(NamedTuple):
    applies: Callable[[Chat], bool]
    answer: Callable[[Chat], str]


@dataclass
class Recorded:
    """One request that reached the server, and what became of it."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    fault: str | None = None
    status: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    search_units: int = 0
    answer: str = ""

    @property
    def is_billed(self) -> bool:
        return self.prompt_tokens > 0


class LLMServer:
    """The server; its state is what a test sets and reads.

    ``usage`` is whether replies tell their tokens, or what they say of them; ``alter`` changes a reply but embeddings'.
    No request is served before ``together`` were under way at one time, or after 30 seconds.
    """

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self.faults: list[Fault | None] = []
        self.requests: list[Recorded] = []
        self.port = 0
        self._lock = threading.Lock()
        self._seen: Counter[str] = Counter()
        self.reset()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def rerank_url(self, dialect: str) -> str:
        return f"http://127.0.0.1:{self.port}/{dialect}"

    @property
    def billed(self) -> list[Recorded]:
        return [request for request in self.requests if request.is_billed]

    @property
    def billed_tokens(self) -> int:
        return sum(request.prompt_tokens + request.completion_tokens for request in self.requests)

    def fail_randomly(self, rate: float, seed: int = 0, kinds: Sequence[str] = FAULTS) -> None:
        self.random_faults = rate, seed, kinds

    def answer(self, text: str | Callable[[Chat], str], when: Callable[[Chat], bool] = lambda chat: True) -> None:
        self.rules.insert(0, Rule(when, text if callable(text) else lambda chat: text))

    def reset(self) -> None:
        self.rules[:] = DEFAULT_RULES
        self.faults.clear()
        self.requests.clear()
        self._seen.clear()
        self._under_way: list[Recorded] = []  # what an earlier test gave up on may still be served
        self.random_faults: tuple[float, int, Sequence[str]] | None = None
        self.usage: Any = True
        self.alter: Callable[[dict[str, Any]], Any] | None = None
        self.embed, self.relevance = word_vector, logit
        self.most_at_once = self.together = 0

    def start(self) -> None:
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(self.app(), log_level="critical", access_log=False, lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([listener],), daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)

    def stop(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(timeout=10)

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.post("/{start}/{path:path}")
        async def answer(request: Request, start: str, path: str) -> Response:
            if start == "v1" and path in ("chat/completions", "embeddings"):
                return await self._serve(request, self._chat if path == "chat/completions" else self._embeddings)
            if start not in SHAPES or path not in SHAPES[start].paths:
                return JSONResponse({"detail": "Not Found"}, 404)
            return await self._serve(request, lambda record, fault: self._rerank(record, start))

        return app

    async def _serve(self, request: Request, reply: Callable[[Recorded, Fault | None], Response]) -> Response:
        body = await request.json()
        with self._lock:
            record, under_way = Recorded(request.url.path, dict(request.headers), body), self._under_way
            self.requests.append(record)
            under_way.append(record)
            self.most_at_once = max(self.most_at_once, len(self._under_way))
            fault = self._fault(body)
            record.fault = fault.kind if fault else None
        try:
            await _until(lambda: self.most_at_once >= self.together, 30)
            if fault is not None and fault.kind == "slow":
                await _until(fault.until.is_set, HANG_S) if fault.until else await asyncio.sleep(fault.delay_s)
                if not any(request is record for request in self.requests):
                    return Response(status_code=503)  # an earlier test's, which nobody waits for
            failed = _failure(fault, record) if fault else None
            response = reply(record, fault) if failed is None else failed
            record.status = response.status_code
            return response
        finally:
            with self._lock:
                under_way.pop()

    def _fault(self, body: Mapping[str, Any]) -> Fault | None:
        if self.faults:
            return self.faults.pop(0)
        if self.random_faults is None:
            return None
        rate, seed, kinds = self.random_faults
        key = json.dumps(body, sort_keys=True)
        self._seen[key] += 1  # drawn from the request itself and how often it came: no matter in which order
        digest = hashlib.sha256(f"{seed} {self._seen[key]} {key}".encode()).digest()
        if int.from_bytes(digest[:8], "big") / 2**64 >= rate:
            return None
        return Fault(kinds[digest[8] % len(kinds)], delay_s=0.0)

    def _chat(self, record: Recorded, fault: Fault | None) -> Response:
        chat = Chat(record.body)
        text = next(rule.answer(chat) for rule in self.rules if rule.applies(chat))
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        finish = "stop"
        if fault is not None:
            message, finish = spoil(fault.kind, text)
        record.answer = message["content"] or message["refusal"] or ""
        record.prompt_tokens = sum(count_tokens(m["content"]) + 3 for m in chat.messages)
        record.completion_tokens = count_tokens(record.answer)
        reply = {
            "id": "chatcmpl-test",
            "object": "chat.completion",
            "created": 0,
            "model": record.body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        }
        if fault is not None and fault.kind == "no_choices":
            reply["choices"] = []
        return self._told(reply | self._bill(record))

    def _rerank(self, record: Recorded, dialect: str) -> Response:
        shape, body = SHAPES[dialect], record.body
        if problem := shape.objection(body):
            return JSONResponse({"detail": problem}, 422)
        documents = body[shape.texts]
        logits = [self.relevance(body["query"], text) for text in documents]
        if self.usage:
            record.prompt_tokens = sum(count_tokens(body["query"]) + count_tokens(text) for text in documents)
            record.search_units = -(-len(documents) // 100)
        return self._told(shape.reply(body, logits, record.prompt_tokens, record.search_units))

    def _told(self, whole: Any) -> Response:
        # Not JSONResponse, which refuses NaN.
        altered = whole if self.alter is None else self.alter(whole)
        text = altered if isinstance(altered, str) else json.dumps(altered)
        return Response(text, 200, media_type="application/json")

    def _embeddings(self, record: Recorded, fault: Fault | None) -> Response:
        texts = record.body["input"]
        record.prompt_tokens = sum(count_tokens(text) for text in texts)
        data = [{"object": "embedding", "index": i, "embedding": self.embed(text)} for i, text in enumerate(texts)]
        if fault is not None and fault.kind == "wrong_count":
            data.pop()
        # In reverse, since the API promises no order: the index counts.
        reply = {"object": "list", "model": record.body["model"], "data": data[::-1]}
        return JSONResponse(reply | self._bill(record))

    def _bill(self, record: Recorded) -> dict[str, Any]:
        if not isinstance(self.usage, bool):
            return {"usage": self.usage}
        if not self.usage:
            return {}
        prompt, completion = record.prompt_tokens, record.completion_tokens
        total = prompt + completion
        return {"usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}}


def _failure(fault: Fault, record: Recorded) -> Response | None:
    """The reply to a request that fails; None for faults that answer."""
    if fault.kind == "rate_limit":
        headers = {} if fault.retry_after is None else {"Retry-After": fault.retry_after}
        return JSONResponse({"error": {"message": "too many requests", "code": "rate_limit"}}, 429, headers)
    if fault.kind == "server_error":
        return JSONResponse({"error": {"message": "something broke"}}, fault.status)
    if fault.kind == "unauthorized":
        told = record.headers.get("authorization", "")
        return JSONResponse({"error": {"message": f"Incorrect API key provided: {told}"}}, 401)
    if fault.kind == "redirect":  # of a rerank request, to the same server by another name
        port = record.headers["host"].rpartition(":")[2]
        return Response(None, 307, {"Location": f"http://localhost:{port}/cohere/v2/rerank"})
    others: dict[str, Callable[[], Response]] = {
        "garbage": lambda: PlainTextResponse("<html>bad gateway</html>"),
        "drop": lambda: StreamingResponse(_break_off(), headers={"Content-Length": "1000"}),
        "drip": lambda: StreamingResponse(_drip()),
        "strange_coding": lambda: Response(b"?", headers={"Content-Encoding": "zstd"}),
        "endless": lambda: StreamingResponse(_endless()),
        "bomb": lambda: Response(gzip.compress(bytes(8 * 2**20), mtime=0), headers={"Content-Encoding": "gzip"}),
    }
    return others[fault.kind]() if fault.kind in others else None


async def _until(holds: Callable[[], bool], seconds: float) -> None:
    given_up = time.monotonic() + seconds
    while not holds() and time.monotonic() < given_up:
        await asyncio.sleep(0.005)


async def _drip() -> AsyncIterator[bytes]:
    for _ in range(int(HANG_S / 0.05)):
        yield b" "
        await asyncio.sleep(0.05)


async def _endless() -> AsyncIterator[bytes]:
    for _ in range(600):  # MB: what memory would show
        yield bytes(2**20)


async def _break_off() -> AsyncIterator[bytes]:
    yield b'{"choices": '
    raise ConnectionResetError("dropped on purpose")


def spoil(kind: str, text: str) -> tuple[dict[str, Any], str]:
    """(message, finish reason) of an answer gone wrong."""
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
    if kind == "cut_off":
        return message | {"content": text[: len(text) // 2]}, "length"
    if kind == "refusal":
        return message | {"content": None, "refusal": "I cannot help with that."}, "stop"
    if kind == "empty":
        return message | {"content": ""}, "stop"
    if kind == "malformed_json":
        return message | {"content": '{"a": [1, 2'}, "stop"
    if kind in ("wrong_enum", "wrong_count"):
        change = _other_values if kind == "wrong_enum" else _other_counts
        with suppress(ValueError):
            return message | {"content": json.dumps(change(json.loads(text)))}, "stop"
    return message, "stop"


def _other_values(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _other_values(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_other_values(entry) for entry in value]
    return "no_such_value" if isinstance(value, str) else 999


def _other_counts(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _other_counts(entry) for name, entry in value.items()}
    if not isinstance(value, list):
        return value
    return value[:-1] if len(value) == 2 else [*value[:-1], *value[:-1]]  # some missing, some repeated


def words(text: str) -> list[str]:
    return re.findall(r"\w\w+", text.lower())


def overlap(query: str, document: str) -> float:
    """Share of the query's words that the document holds."""
    wanted, held = set(words(query)), set(words(document))
    return len(wanted & held) / len(wanted) if wanted else 0.0


def logit(query: str, document: str) -> float:
    """-3 to 3 by the share of the query's words; the longer of two is a little better."""
    return 6.0 * overlap(query, document) - 3.0 + len(document) / 10_000


def word_vector(text: str) -> list[float]:
    """A bag of words hashed into ``DIMS`` places: like texts are near each other."""
    vector = [0.0] * DIMS
    for word in words(text) or [text]:
        vector[hashlib.sha256(word.encode()).digest()[0] % DIMS] += 1.0
    return vector


def _query(chat: Chat) -> str:
    if "query" in chat.fenced:
        return chat.fenced["query"]
    original = re.search(r"Original Query: (.*?)\nGenerate", chat.prompt, re.S)
    return original[1] if original else chat.prompt.split("\n", 1)[0]


def _documents(chat: Chat) -> list[str]:
    return [text for label, text in chat.fenced.items() if label.startswith("document")]


def _asked(chat: Chat) -> int:
    number = re.search(r"(?:Generate|Write) (\d+) different", chat.prompt)
    return int(number[1]) if number else 1


def rewrites(chat: Chat) -> str:
    query = " ".join(_query(chat).split())
    forms = ["about {}", "{} explained", "facts on {}", "what is known of {}", "{} overview"]
    return json.dumps([forms[i % len(forms)].format(query) + " again" * (i // len(forms)) for i in range(_asked(chat))])


def passages(chat: Chat) -> str:
    query = " ".join(_query(chat).split())
    return json.dumps([f"Passage {i + 1}. {query}: this is well known." for i in range(_asked(chat))])


def grade(chat: Chat) -> str:
    return json.dumps({"grade": round(3 * overlap(_query(chat), next(iter(_documents(chat)), "")))})


def ranking(chat: Chat) -> str:
    scores = [overlap(_query(chat), text) for text in _documents(chat)]
    return json.dumps({"ranking": [i + 1 for i in sorted(range(len(scores)), key=lambda i: (-scores[i], i))]})


def best(chat: Chat) -> str:
    return json.dumps({"best": json.loads(ranking(chat))["ranking"][0]})


DEFAULT_RULES = (
    Rule(lambda chat: "different search queries" in chat.prompt, rewrites),
    Rule(lambda chat: "different passages" in chat.prompt, passages),
    Rule(lambda chat: '{"grade": ' in chat.prompt, grade),
    Rule(lambda chat: '{"ranking": ' in chat.prompt, ranking),
    Rule(lambda chat: '{"best": ' in chat.prompt, best),
    Rule(lambda chat: True, lambda chat: f"You said: {chat.prompt}"),
)
