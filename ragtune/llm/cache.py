"""The durable record of a language model's answers, keyed on all that they depend on."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from ragtune.core.errors import ConfigError
from ragtune.data.caches.diskcache import resolve_cache_dir
from ragtune.data.caches.sqlitecache import SqliteCache
from ragtune.llm.errors import CircuitOpenError, ServiceError, ServiceKind
from ragtune.llm.types import Price


class RecordedAnswer(BaseModel):
    """An answer as it was got, usable or not: a bad one was paid for as well, and replays as what it was.

    ``is_estimated`` says that tokens were counted here, because the server did not tell them.
    """

    text: str
    refusal: str
    model: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    latency_ms: float
    attempts: int
    wasted_ms: float
    is_estimated: bool = False

    model_config = ConfigDict(frozen=True, extra="forbid")


class RecordedFailure(BaseModel):
    """A call that got no answer: replay fails as the recording did, while recording again tries again."""

    kind: ServiceKind
    message: str
    attempts: int
    wasted_ms: float
    prompt_tokens: int = 0
    completion_tokens: int = 0

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def of(cls, error: ServiceError) -> RecordedFailure:
        """The record of the failure that ``error`` describes."""
        return cls(
            kind=error.kind,
            message=str(error),
            attempts=error.attempts,
            wasted_ms=error.wasted_ms,
            prompt_tokens=error.prompt_tokens,
            completion_tokens=error.completion_tokens,
        )

    def error(self, price: Price) -> ServiceError:
        """The recorded error, to be raised again; replaying it costs nothing."""
        make = CircuitOpenError if self.kind == "circuit_open" else ServiceError
        bill = self.prompt_tokens, self.completion_tokens
        return make(self.message, self.kind, self.attempts, self.wasted_ms, True, *bill).priced(price)


class RecordedVector(BaseModel):
    """One text's embedding (float32, little endian, base64) and its share of its batch's bill."""

    vector: str
    prompt_tokens: int
    latency_ms: float
    is_estimated: bool = False

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def of(
        cls, vector: NDArray[np.float32], prompt_tokens: int, latency_ms: float, is_estimated: bool
    ) -> RecordedVector:
        """The record of a vector, shape (d,)."""
        data = base64.b64encode(vector.astype("<f4").tobytes()).decode()
        return cls(vector=data, prompt_tokens=prompt_tokens, latency_ms=latency_ms, is_estimated=is_estimated)

    def array(self) -> NDArray[np.float32]:
        """The vector as an array of shape (d,)."""
        return np.frombuffer(base64.b64decode(self.vector), dtype="<f4").astype(np.float32)


R = TypeVar("R", RecordedAnswer, RecordedFailure, RecordedVector)


class AnswerCache:
    """Recorded calls in one SQLite file (WAL), for several threads and processes at once.

    It holds answers, token counts and times under hashes: no prompt, no address and no secret.

    Args:
        folder: where ``answers.sqlite`` lives.
        is_read_only: whether the cache may write nothing, not even an empty file.
    """

    def __init__(self, folder: Path, is_read_only: bool = False) -> None:
        self._store = SqliteCache[str](folder / "answers.sqlite", "answer", "value TEXT NOT NULL")
        self._is_read_only = is_read_only

    @classmethod
    def of(cls, mode: str, cache_dir: str | Path | None) -> AnswerCache | None:
        """The record of a client; None where nothing is recorded.

        Raises:
            ConfigError: if there is no folder and the mode needs one.
        """
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
        """Open the file now, if anything may be written.

        Raises:
            ConfigError: if the folder cannot be used.
        """
        if not self._is_read_only:
            self._store.check()

    @staticmethod
    def key(call: str, parameters: Mapping[str, Any]) -> bytes:
        """32 bytes that identify a call: its kind, model, messages and every parameter that it is sent with."""
        return SqliteCache.key(call, json.dumps(parameters, sort_keys=True, ensure_ascii=False))

    def answer(self, key: bytes) -> RecordedAnswer | RecordedFailure | None:
        """The recorded answer or failure of a chat call; None if the call was never recorded."""
        value = self._get([key]).get(key)
        if value is None:
            return None
        return _read(RecordedAnswer, value) or _read(RecordedFailure, value)

    def vectors(self, keys: Sequence[bytes]) -> dict[bytes, RecordedVector]:
        """The recorded embeddings by key; keys that were never recorded are left out."""
        known = {key: _read(RecordedVector, value) for key, value in self._get(list(dict.fromkeys(keys))).items()}
        return {key: vector for key, vector in known.items() if vector is not None}

    def put(self, records: Mapping[bytes, RecordedAnswer | RecordedVector]) -> None:
        """Keep records durably; a record that cannot be written causes a warning, and its answer is not lost."""
        self._store.put({key: record.model_dump_json() for key, record in records.items()})

    def put_failure(self, key: bytes, failure: RecordedFailure) -> None:
        """Keep a failure, unless the call was answered at another time."""
        if not isinstance(self.answer(key), RecordedAnswer):
            self._store.put({key: failure.model_dump_json()})

    def close(self) -> None:
        """Close the connection; it reopens on use."""
        self._store.close()

    def _get(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        if self._is_read_only and not self.path.exists():
            return {}
        return self._store.get(keys)


def _read(kind: type[R], value: str) -> R | None:
    try:
        return kind.model_validate_json(value)
    except ValidationError:
        return None
