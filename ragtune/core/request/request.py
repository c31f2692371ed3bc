"""What a caller asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragtune.core.request.budget import CostBudget
from ragtune.core.types import ScoredDocument


@dataclass(frozen=True, slots=True)
class Request:
    """One query to be answered.

    Attributes:
        query: the user's text.
        query_id: stable id; None takes a digest of the query.
        budget: limits of this request; None takes the controller's.
        candidates: documents that the caller has found already, best first, for a retriever that hands out what it is
            given (:class:`~ragtune.retrievers.given.GivenRetriever`); other retrievers look for themselves.
    """

    query: str
    query_id: str | None = None
    budget: CostBudget | None = None
    candidates: Sequence[ScoredDocument] = ()
