"""What all parts of a controller have in common, and what recorded, cached and priced rerankers state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.units import SOMETIMES_TOLD


class Component:
    """A part of a controller.

    Attributes:
        reads_files: names of the constructor's arguments for files or folders whose content belongs to the identity of
            a run.
        keeps_files: names of those for files that the part writes itself, such as a cache. A file that an argument in
            neither list names counts as read; the contract suites report it.
    """

    reads_files: Collection[str] = ()
    keeps_files: Collection[str] = ("cache_dir",)

    def prepare(self) -> None:
        """Load models and warm up: work that must not run on a request's clock. A second call does nothing.

        A part that holds other parts prepares them. A model that a cache may make unnecessary can be loaded later,
        within ``context.tracker.clock.paused()``.
        """


class AccountedReranker(Component):
    """What the harness and caches ask of a reranker; the defaults fit a live one that knows no prices."""

    @property
    def is_recorded(self) -> bool:
        """Whether every score is known beforehand, so that asking for one costs nothing."""
        return False

    @property
    def simulates_time(self) -> bool:
        """Whether the charged time was recorded, so that a virtual clock must keep it."""
        return self.is_recorded

    def can_score(self, doc_id: str, context: RAGtuneContext) -> bool:
        """Whether the reranker can score the document for this request; a score table may lack it."""
        return True

    def unpaid(self, items: Sequence[PoolItem], context: RAGtuneContext) -> Sequence[PoolItem]:
        """The documents whose scores would have to be paid for now; a cache leaves out those it holds."""
        return items

    @property
    def unpriced(self) -> frozenset[str]:
        """Units in which an expected cost of 0 means that the price is unknown."""
        return frozenset({"tokens", "latency_ms", "usd", *SOMETIMES_TOLD})


def queries_of(part: Any) -> Mapping[str, Collection[str]]:
    """The queries of each recorded input by its name in messages, to be compared with those of the collection."""
    return part.recorded_queries() if hasattr(part, "recorded_queries") else {}


def documents_of(part: Any) -> Mapping[str, Collection[str]]:
    """The documents of each recorded input, whatever the query, from ``recorded_documents()``; compared as queries."""
    return part.recorded_documents() if hasattr(part, "recorded_documents") else {}


def doubts_of(part: Any) -> Mapping[str, int]:
    """Warnings, in words that follow a number, with that number, from a property ``doubts``."""
    return getattr(part, "doubts", {})
