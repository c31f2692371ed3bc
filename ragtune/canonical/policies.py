"""Options of the canonical blocks: how to chunk, how to retrieve, how to compress."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ragtune.canonical.types import Filters


class ChunkPolicy(BaseModel):
    """How a text is split (rule D3). Token counts are those of :func:`ragtune.core.tokens.count_tokens`.

    Attributes:
        method: ``tokens`` (windows), ``sentences``, ``paragraphs`` or ``markdown`` (a section a heading).
        max_tokens: no chunk is longer; a longer sentence, paragraph or section is cut by windows.
        overlap_tokens: tokens that a window shares with the one before it; below ``max_tokens``.

    Examples:
        >>> from ragtune.canonical.policies import ChunkPolicy
        >>> ChunkPolicy(method="markdown", max_tokens=200).max_tokens
        200
    """

    method: Literal["tokens", "sentences", "paragraphs", "markdown"] = "tokens"
    max_tokens: int = Field(default=256, ge=1)
    overlap_tokens: int = Field(default=0, ge=0)

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="after")
    def _overlap_is_smaller(self) -> ChunkPolicy:
        if self.overlap_tokens >= self.max_tokens:
            raise ValueError(f"overlap_tokens={self.overlap_tokens}: allowed is less than max_tokens={self.max_tokens}")
        return self


class RetrievalPlan(BaseModel):
    """How candidates are generated, filtered and fused (rules D6 to D11).

    Attributes:
        mode: ``vector``, ``lexical`` or ``hybrid`` (both, fused).
        k: number of results; of ``hybrid``, ``<= candidate_pool``.
        candidate_pool: number of candidates of each list before fusion; raised to k where there is one list.
        fusion: of ``hybrid``: ``rrf``, ``scores``, or ``fitted`` (what was fitted to the collection's questions).
        weights: of the lists ``vector`` and ``lexical`` in the fusion, >= 0; 1 by default.
        rrf_k: damping of reciprocal rank fusion.
        filters: which chunks may be candidates.

    Examples:
        >>> from ragtune.canonical.policies import RetrievalPlan
        >>> RetrievalPlan(mode="hybrid", k=5).candidate_pool
        50
    """

    mode: Literal["vector", "lexical", "hybrid"] = "vector"
    k: int = Field(default=12, ge=1)
    candidate_pool: int = Field(default=50, ge=1)
    fusion: Literal["rrf", "scores", "fitted"] = "rrf"
    weights: dict[Literal["vector", "lexical"], Annotated[float, Field(ge=0, le=1e6)]] = Field(default_factory=dict)
    rrf_k: float = Field(default=60.0, ge=0.0, allow_inf_nan=False)
    filters: Filters = Filters()

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def fusing(self) -> tuple[str, dict[str, Any]]:
        """Method and parameters of :func:`ragtune.canonical.fuse`."""
        return self.fusion, {"weights": self.weights, **({"k": self.rrf_k} if self.fusion == "rrf" else {})}

    @model_validator(mode="after")
    def _pool_holds_k(self) -> RetrievalPlan:
        if self.k > self.candidate_pool and self.mode != "hybrid":
            object.__setattr__(self, "candidate_pool", self.k)  # sets a field of a frozen model
        if self.k > self.candidate_pool:
            raise ValueError(f"k={self.k}: allowed is at most candidate_pool={self.candidate_pool}")
        return self


class CompressPolicy(BaseModel):
    """How candidates are cut down to what matters for the query (rule D10).

    Attributes:
        method: ``windows`` (the best sentence with its neighbours) or ``spans`` (every sentence that matches).
        window: number of sentences on each side of a matching sentence.
        max_tokens: the most tokens of all excerpts together.

    Examples:
        >>> from ragtune.canonical.policies import CompressPolicy
        >>> CompressPolicy(method="windows", window=2).window
        2
    """

    method: Literal["windows", "spans"] = "windows"
    window: int = Field(default=1, ge=0)
    max_tokens: int = Field(default=1024, ge=1)

    model_config = ConfigDict(frozen=True, extra="forbid")
