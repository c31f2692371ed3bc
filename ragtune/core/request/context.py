"""What a caller asks for, and what every component may know about the request it works on."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, SkipValidation

from ragtune.core.request.budget import CostBudget, CostTracker
from ragtune.core.request.trace import ControllerTrace
from ragtune.core.types import FREE, CostObject, ScoredDocument

T = TypeVar("T")

ORIGINAL = "original"
"""Name of the retrieval round of the user's own query."""

_REWRITE = re.compile(r"rewrite_\d+")  # the retrieval round of the i-th rewrite, from 0


def first_stage_of(source: str) -> str:
    """The first stage behind a source's name: rewrites of a query are further questions to the same one."""
    rewrite, _, inner = source.partition("/")
    return (inner or ORIGINAL) if _REWRITE.fullmatch(rewrite) else source


GRAPH_SOURCE = "graph"
"""Source name of documents that an expander found."""


class CostMeter:
    """What a batch or a rewriting cost: ``charged`` to the policy (None: as expected), ``actual`` to the run."""

    def __init__(self) -> None:
        self.charged: CostObject | None = None
        self.actual = FREE
        self.waited_ms = 0.0

    def pay(self, cost: CostObject) -> None:
        self.actual = self.actual + cost

    def wait(self, ms: float) -> None:
        """Report time that the batch spent on others' account: in a queue, or in a call that it shared with them."""
        self.waited_ms += ms

    def charge(self, cost: CostObject) -> None:
        """Report the true charge, where it differs from the expected one."""
        self.charged = cost if self.charged is None else self.charged + cost


@dataclass(frozen=True, slots=True)
class Request:
    """One query to be answered.

    Attributes:
        query: the user's text.
        query_id: stable id; None takes a digest of the query.
        budget: limits of this request; None takes the controller's.
        candidates: documents that the caller has found already, best first, for a retriever that hands out what it is
            given (:class:`~ragtune.retrievers.given.GivenRetriever`); other retrievers look for themselves.

    Examples:
        >>> from ragtune import CostBudget
        >>> from ragtune.core.request.context import Request
        >>> Request("how hot is green tea", "q1", CostBudget.only(max_reranker_docs=20)).query_id
        'q1'
    """

    query: str
    query_id: str | None = None
    budget: CostBudget | None = None
    candidates: Sequence[ScoredDocument] = ()


class RAGtuneContext(BaseModel):
    """One request (rules S4 and R1).

    Attributes:
        query: the text of this round; a rewrite in supplemental rounds.
        query_id: stable id of the request, the key of replayed runs and score tables.
        tracker: the request's account.
        round: name of the retrieval round, ``original`` or ``rewrite_<i>``.
        seed: root of all randomness of the request.
        candidates: documents that came with the request, best first, where the caller has a first stage of its own.
        num_reformulations: rewrites wanted, m; the plan's.
        meter: takes the costs that components report; the controller puts a fresh one in before each batch.
        memory: per-request state of components, so that components themselves stay stateless.

    Examples:
        >>> from ragtune import CostBudget, CostTracker
        >>> from ragtune.core.request.context import RAGtuneContext
        >>> from ragtune.core.request.trace import ControllerTrace
        >>> tracker = CostTracker(CostBudget(), ControllerTrace())
        >>> context = RAGtuneContext(query="tea", query_id="q1", tracker=tracker, seed=7)
        >>> context.rng("ties").random() == context.rng("ties").random()
        True
    """

    query: str
    query_id: str
    tracker: CostTracker
    round: str = ORIGINAL
    seed: int = 0
    candidates: SkipValidation[Sequence[ScoredDocument]] = ()
    num_reformulations: int = 2
    meter: CostMeter = Field(default_factory=CostMeter)
    memory: dict[int, Any] = Field(default_factory=dict)

    model_config = ConfigDict(arbitrary_types_allowed=True)

    @property
    def trace(self) -> ControllerTrace:
        """The request's trace."""
        return self.tracker.trace

    @property
    def time_left_ms(self) -> float:
        """Milliseconds until the time limit, never below 0; infinite without one. What a remote call may take."""
        return self.tracker.time_left_ms

    def remember(self, owner: object, make: Callable[[], T]) -> T:
        """The owner's state for this request, made on first use."""
        key = id(owner)
        if key not in self.memory:
            # The owner is kept as well: were it collected, another object could take over its id and its state.
            self.memory[key] = (owner, make())
        state: T = self.memory[key][1]
        return state

    def fork(self, tracker: CostTracker) -> RAGtuneContext:
        """This request under another account; what its components remember from now on is not shared."""
        owners = [owner for owner, _ in self.memory.values()]
        parts = [part for owner in owners for part in getattr(owner, "__dict__", {}).values()]
        memory = deepcopy(self.memory, {id(shared): shared for shared in (*owners, *parts)})
        return self.model_copy(update={"tracker": tracker, "meter": CostMeter(), "memory": memory})

    def rng(self, purpose: str) -> np.random.Generator:
        """A generator seeded by (seed, query id, purpose): the same in every process and order of queries."""
        digest = hashlib.sha256(f"{self.seed}\x00{self.query_id}\x00{purpose}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8], "big"))
