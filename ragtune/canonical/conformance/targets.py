"""The systems that conformance checks: anything that answers the operations of the service in JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

from ragtune.core.errors import RagtuneError

EMBEDDER = "hashing"
"""Name of the embedder that a target must offer: :class:`ragtune.embedders.hashing.HashingEmbedder` of 256 dims."""

RERANKER = "hashing"
"""Name of the reranker: :class:`ragtune.rerankers.models.bi_encoder.BiEncoderReranker` of that embedder."""

TIMEOUT_S = 60.0
"""Seconds that an operation may take."""


class TargetError(RagtuneError):
    """A server refused a request, or its answer had the wrong form."""


class Target(ABC):
    """The operations of a server (those of its OpenAPI document), by name.

    Attributes:
        name: name of the target, for reports.
        reranker: the target's name for the reranker of the golden answers. None if it has none, as reranking is
            optional (rule D9).
    """

    name: str
    reranker: str | None

    @abstractmethod
    def call(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return an operation's answer. Arguments and answer are JSON objects.

        Raises:
            TargetError: if the server refuses, fails, or cannot be reached.
        """

    def close(self) -> None:  # noqa: B027 -- most targets hold nothing
        """Release what the target holds. It is safe to call again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
