"""What one request may spend, unit by unit."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from ragtune.core.units import BY_SHORT


def _unlimited_if_infinite(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("number_type", "Input should be a number")  # true would be a limit of 1
    return None if isinstance(value, float) and value == math.inf else value


Count = Annotated[Annotated[int, Field(ge=0)] | None, BeforeValidator(_unlimited_if_infinite)]
Amount = Annotated[Annotated[float, Field(ge=0, allow_inf_nan=False)] | None, BeforeValidator(_unlimited_if_infinite)]


LIMITS = {short: unit.limit for short, unit in BY_SHORT.items()}
"""The limit in each unit, by the short names that users give the units."""


class Limits(BaseModel):
    """Limits of one request; ``None`` (or infinity) means unlimited. The defaults are those of rule B1.

    Attributes:
        max_tokens: tokens for reranking, LLM calls and the assembled context together.
        max_reranker_docs: documents sent to a reranker.
        max_reranker_calls: reranker calls, failed ones included.
        max_reformulations: reformulator calls.
        max_retrieval_rounds: retrieval rounds beyond the original one.
        max_latency_ms: milliseconds since the request began; no batch starts that is expected to pass it.
        max_cost_usd: dollars.
        max_flops: floating-point operations of the reranker, where the size of its model is declared.
        max_search_units: search units of the reranker, where it is billed in such.
        max_joules: energy, where the machine measures it: what a batch takes is known once it has run, so the batch
            that passes the limit is the last.
        max_expanded_docs: documents that an expander may add to the pool.
        assembly_token_buffer: tokens that reranking may not touch, so that a context is left; None for half of
            ``max_tokens``.
        charge_failures: whether a failed batch's documents and calls, and the tokens and money that the reranker
            reports for it, are charged. False is rule F2 to the letter: nothing is consumed by a failed batch.
    """

    max_tokens: Count = 4000
    max_reranker_docs: Count = 50
    max_reranker_calls: Count = None
    max_reformulations: Count = 1
    max_retrieval_rounds: Count = 2
    max_latency_ms: Amount = 2000.0
    max_cost_usd: Amount = None
    max_flops: Amount = None
    max_search_units: Count = None
    max_joules: Amount = None
    max_expanded_docs: Count = None
    assembly_token_buffer: Annotated[int, Field(ge=0)] | None = None
    charge_failures: bool = True

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def tokens_for_assembly(self) -> int:
        """The buffer in tokens: as given, else half of ``max_tokens``, and 0 where tokens are unlimited."""
        if self.assembly_token_buffer is not None:
            return self.assembly_token_buffer
        return 0 if self.max_tokens is None else self.max_tokens // 2
