"""The durable record of a language model's answers, keyed on everything that they depend on."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from ragtune.core.errors import CacheMissError, ConfigError
from ragtune.data.caches.diskcache import resolve_cache_dir
from ragtune.data.caches.sqlitecache import SqliteCache
from ragtune.llm.errors import ServiceError, ServiceKind
from ragtune.llm.types import ChatResult, Price


class RecordedAnswer(BaseModel):
    """An answer, usable or not: a bad one was paid for as well, and replays as it was."""

    text: str
    refusal: str
    model: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    attempts: int
    latency_ms: float
    is_estimated: bool = False

    model_config = ConfigDict(frozen=True, extra="forbid")

    def result(self, price: Price, cached: bool) -> ChatResult:
        """The answer with its bill."""
        usd = price.usd(self.prompt_tokens, self.completion_tokens)
        return ChatResult(**self.model_dump(), usd=usd, cached=cached)


class RecordedFailure(BaseModel):
    """A call without an answer: replay fails as the recording did, and recording again tries again."""

    kind: ServiceKind
    message: str
    attempts: int
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_ms: float

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def of(cls, error: ServiceError) -> RecordedFailure:
        """The record of a failure."""
        bill = {name: getattr(error, name) for name in ("attempts", "latency_ms", "prompt_tokens", "completion_tokens")}
        return cls(kind=error.kind, message=str(error), **bill)

    def error(self, price: Price) -> ServiceError:
        """The recorded error, to be raised again; replaying it costs nothing."""
        bill = self.prompt_tokens, self.completion_tokens
        error = ServiceError(self.message, self.kind, self.attempts, self.latency_ms, *bill, cached=True)
        error.usd = price.usd(*bill)
        return error


Recorded = RecordedAnswer | RecordedFailure
_RECORDED: TypeAdapter[Recorded] = TypeAdapter(Recorded)


class AnswerCache:
    """Recorded calls in one SQLite file, for several threads and processes at once."""

    def __init__(self, folder: Path, is_read_only: bool = False) -> None:
        self._store = SqliteCache[str](folder / "answers.sqlite", "answer", "value TEXT NOT NULL")
        self._is_read_only = is_read_only

    @classmethod
    def of(cls, mode: str, cache_dir: str | Path | None) -> AnswerCache | None:
        """The record of a client; None where nothing is recorded."""
        if mode == "live":
            return None
        folder = resolve_cache_dir(cache_dir)
        if folder is None:
            raise ConfigError(f"llm cache_dir=None with mode={mode!r}: allowed is a folder, or mode=live")
        return cls(folder / "llm", is_read_only=mode == "replay")

    @property
    def path(self) -> Path:
        """Path of the SQLite file."""
        return self._store.path

    def check(self) -> None:
        """Open the file now, if anything may be written."""
        if not self._is_read_only:
            self._store.check()

    @staticmethod
    def key(call: str, parameters: Mapping[str, Any]) -> bytes:
        """32 bytes that identify a call: its kind, model, messages and every parameter that it is sent with."""
        return SqliteCache.key(call, json.dumps(parameters, sort_keys=True, ensure_ascii=False))

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Recorded]:
        """The recorded calls by key; keys that were never recorded are left out."""
        if self._is_read_only and not self.path.exists():
            return {}
        known = {key: _read(value) for key, value in self._store.get(list(dict.fromkeys(keys))).items()}
        return {key: record for key, record in known.items() if record is not None}

    def put(self, records: Mapping[bytes, Recorded]) -> None:
        """Keep records durably. A record that cannot be written causes a warning; its answer is not lost."""
        self._store.put({key: record.model_dump_json() for key, record in records.items()})

    def miss(self, key: bytes, model: str, text: str) -> CacheMissError:
        """The error of a key that the cache does not hold, with the model and the start of the text that was asked."""
        start = json.dumps(textwrap.shorten(text, 60), ensure_ascii=False)
        return CacheMissError(
            f"{self.path} holds no answer of {model!r} with key {key.hex()[:16]} to {start}: "
            "run it once with mode=record"
        )

    def close(self) -> None:
        """Close the connection; it reopens on use."""
        self._store.close()


def _read(value: str) -> Recorded | None:
    try:
        return _RECORDED.validate_json(value)
    except ValidationError:
        return None
