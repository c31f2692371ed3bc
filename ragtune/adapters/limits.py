"""What a server gives a request: bytes, seconds, and a place among those that are served at once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragtune.adapters.errors import AdapterError, invalid
from ragtune.adapters.operations import Operation
from ragtune.canonical.service import RagService

T = TypeVar("T")

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[,\[{]', re.DOTALL)
_QUOTE = ord('"')

_CHECKS = 2  # threads that only ask the database whether it is there: requests cannot hold them up


class ServerLimits(BaseModel):
    """Limits of a server; those of a request's contents are :class:`ragtune.canonical.service.ServiceLimits`.

    Attributes:
        body_bytes: size of a request's body.
        values: JSON values in a request: numbers, strings, lists, objects. The cost of a bad request grows with them.
        timeout_s: seconds that sending a request may take, and again seconds that serving it may take.
        in_flight: requests at once that have been sent; more are refused.
        threads: requests that are worked on at once; the others wait. More than the database has connections are of
            no use.
        rerank_threads: requests of the rerank API that are worked on at once, beside the others: so many may share a
            call of the model.
    """

    body_bytes: int = Field(default=16 * 2**20, ge=1)
    values: int = Field(default=200_000, ge=1)
    timeout_s: float = Field(default=30.0, gt=0, allow_inf_nan=False)
    in_flight: int = Field(default=256, ge=1)
    threads: int = Field(default=8, ge=1)
    rerank_threads: int = Field(default=32, ge=1)

    model_config = ConfigDict(frozen=True, extra="forbid")


def has_more_values(data: bytes, limit: int) -> bool:
    """Whether a JSON text holds more values than that, its outermost aside; told in linear time, without parsing it."""
    if len(data) <= limit or data.count(b",") + data.count(b"[") + data.count(b"{") <= limit:
        return False
    found = strings = 0
    for token in _TOKEN.finditer(data):
        if data[token.start()] == _QUOTE:
            strings += 1
            if strings > 2 * found + 2:
                return False  # no JSON has so many strings for its commas, and the parser says so at once
            continue
        found += 1
        if found > limit:
            return True
    return False


class Runner:
    """Runs operations in threads of its own, each for a limited time.

    What takes longer is answered with an error, but not cut, as a thread cannot be. It keeps its thread until it ends,
    so hanging work cannot pile up. A PostgreSQL store with the same limit as its ``statement_timeout_s`` ends it: the
    server cancels a statement that takes longer, and undoes its transaction.

    Args:
        service: service that the operations run on.
        limits: limits of the server.
    """

    def __init__(self, service: RagService, limits: ServerLimits) -> None:
        self.service = service
        self._timeout_s = limits.timeout_s
        self._threads = ThreadPoolExecutor(limits.threads, thread_name_prefix="ragtune")
        self._reranks = ThreadPoolExecutor(limits.rerank_threads, thread_name_prefix="ragtune-rerank")
        self._checks = ThreadPoolExecutor(_CHECKS, thread_name_prefix="ragtune-check")

    async def run(self, operation: Operation[Any], data: bytes) -> bytes:
        """Run one operation, with a request and a response in JSON.

        Raises:
            AdapterError: if the operation takes too long, or the request is not valid.
            RagtuneError: as :meth:`Operation.run`.
        """
        work = asyncio.get_running_loop().run_in_executor(self._threads, self._do, operation, self.service, data)
        return await self._within(work)

    async def rerank(self, choose: Callable[[bytes], tuple[Operation[Any], Any]], data: bytes) -> bytes:
        """As :meth:`run`, in the threads of the rerank API, where the operation and what serves it are chosen as well.

        Raises:
            AdapterError, RagtuneError: as :meth:`run`.
        """
        work = asyncio.get_running_loop().run_in_executor(self._reranks, lambda: self._do(*choose(data), data))
        return await self._within(work)

    async def check(self) -> None:
        """Ask the database whether it answers.

        Raises:
            StoreError: if the database does not answer; the message says why.
            AdapterError: if the answer takes too long.
        """
        await self._within(asyncio.get_running_loop().run_in_executor(self._checks, self.service.check))

    @staticmethod
    def _do(operation: Operation[Any], service: Any, data: bytes) -> bytes:
        try:
            return operation.run(service, data)
        except ValidationError as error:
            raise invalid(error) from None

    async def _within(self, work: asyncio.Future[T]) -> T:
        try:
            return await asyncio.wait_for(work, self._timeout_s)
        except TimeoutError:
            raise AdapterError(
                "timeout",
                f"It took more than {self._timeout_s:g} s. A write under way still comes to an end or is undone, never "
                "by half; repeating it is harmless.",
            ) from None

    def close(self) -> None:
        """Let the threads go as soon as they are done."""
        for threads in (self._threads, self._reranks, self._checks):
            threads.shutdown(wait=False, cancel_futures=True)
