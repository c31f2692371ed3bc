"""The interface of memories that Retrieval searches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragtune.superprompt.super_prompt import ContextChunk


@dataclass(frozen=True)
class Matches:
    """Chunks in any order, with their cosines to each piece of the query, shape (len(chunks), pieces), in [-1, 1]."""

    chunks: Sequence[ContextChunk]
    cosines: NDArray[np.float64]


class BaseMemory(ABC):
    """Long-term memory, searched together with the conversation as one index (rule E7)."""

    @abstractmethod
    def search(self, pieces: Sequence[str], conversation: Sequence[ContextChunk], limit: int) -> Matches:
        """Return cosines of chunks of the memory and of all turns with every piece."""

    def term_weights(self, terms: Collection[str]) -> Mapping[str, float] | None:
        """Return a weight > 0 for each term, larger for rarer ones; None where the memory compares no terms."""
        return None

    def close(self) -> None:  # noqa: B027 - most hold no connections
        """Close connections."""
