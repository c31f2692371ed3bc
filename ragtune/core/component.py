"""What all parts of a controller have in common, and what a reranker states about its scores and prices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from ragtune.core.pool.items import PoolItem, RerankBatch
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.units import SOMETIMES_TOLD

Kind = TypeVar("Kind", bound=type)


class FileArguments(NamedTuple):
    """Names of the arguments of a class for files and folders: those that it reads, and those that it writes itself."""

    reads: frozenset[str] = frozenset()
    keeps: frozenset[str] = frozenset({"cache_dir"})


def declare_files(reads: Collection[str] = (), keeps: Collection[str] = ()) -> Callable[[Kind], Kind]:
    """Declare, as a decorator of a class, which of its arguments name files or folders.

    Args:
        reads: arguments whose content belongs to the identity of a run.
        keeps: arguments for what the class writes itself, beside ``cache_dir``, which counts as one.

    An argument that names a file and is in neither list counts as read; the contract suites report it.

    Examples:
        >>> @declare_files(reads=["table"])
        ... class Popularity(Component):
        ...     def __init__(self, table): ...
        >>> sorted(files_of(Popularity).reads)
        ['table']
    """

    def declared(kind: Kind) -> Kind:
        bases = [files_of(base) for base in kind.__bases__]
        kind._files = FileArguments(  # type: ignore[attr-defined]
            frozenset(reads).union(*(base.reads for base in bases)),
            frozenset(keeps).union(*(base.keeps for base in bases), FileArguments().keeps),
        )
        return kind

    return declared


def files_of(kind: Any) -> FileArguments:
    """The arguments of a class for files, by :func:`declare_files` on itself or a base."""
    return getattr(kind, "_files", FileArguments())


class Component:
    """A part of a controller."""

    def prepare(self) -> None:
        """Load models and warm up: work that must not run on a request's clock. A second call does nothing.

        A part that holds other parts prepares them. A model that a cache may make unnecessary can be loaded later,
        within ``context.tracker.clock.paused()``.
        """


def _any(doc_id: str, context: RAGtuneContext) -> bool:
    return True


def _all(items: Sequence[PoolItem], context: RAGtuneContext) -> Sequence[PoolItem]:
    return items


@dataclass(frozen=True)
class RerankerFacts:
    """What the loop, the harness and the caches know of a reranker; the defaults fit a live one that knows no prices.

    Attributes:
        compares: whether a score ranks a document within its batch only (rule F6).
        is_recorded: whether every score is known beforehand, so that asking for one costs nothing.
        has_recorded_times: whether the times that it reports were recorded, though its scores may be live.
        unpriced: names of units in which an expected cost of 0 means that the price is unknown.
        can_score: whether it can score a document for a request; a score table may lack it.
        unpaid: the documents whose scores would have to be paid for now; a cache leaves out those that it holds.

    Examples:
        >>> RerankerFacts(is_recorded=True).simulates_time
        True
    """

    compares: bool = False
    is_recorded: bool = False
    has_recorded_times: bool = False
    unpriced: frozenset[str] = frozenset({"tokens", "latency_ms", "usd", *SOMETIMES_TOLD})
    can_score: Callable[[str, RAGtuneContext], bool] = _any
    unpaid: Callable[[Sequence[PoolItem], RAGtuneContext], Sequence[PoolItem]] = _all

    @property
    def simulates_time(self) -> bool:
        """Whether a virtual clock must keep the time that the reranker reports."""
        return self.is_recorded or self.has_recorded_times


def outcome_of(batch: RerankBatch, reranker: Any) -> Mapping[str, float] | Exception:
    """The scores of a batch by document id, or the error that the reranker raises."""
    try:
        scores: Mapping[str, float] = reranker.rerank(batch.items, batch.context, batch.strategy)
        return scores
    except Exception as error:
        return error


def queries_of(part: Any) -> Mapping[str, Collection[str]]:
    """The queries of each recorded input by its name in messages, to be compared with those of the collection."""
    return part.recorded_queries() if hasattr(part, "recorded_queries") else {}


def documents_of(part: Any) -> Mapping[str, Collection[str]]:
    """The documents of each recorded input, whatever the query, from ``recorded_documents()``; compared as queries."""
    return part.recorded_documents() if hasattr(part, "recorded_documents") else {}
