"""What all parts of a controller have in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol, runtime_checkable


class Component:
    """A part of a controller.

    Attributes:
        reads_files: names of the constructor's arguments that name files or folders which the part reads. Their content
            belongs to the identity of a run, as do the options that choose the part.
        keeps_files: names of the arguments that name files or folders which the part writes itself, such as a cache.
            They do not belong to the identity of a run. A file that an argument in neither list names counts as read;
            the contract suites report such an argument.
    """

    reads_files: Collection[str] = ()
    keeps_files: Collection[str] = ("cache_dir",)

    def prepare(self) -> None:
        """Load models, import lazy dependencies, warm up: all work that must not run on a request's clock.

        The controller calls this before the clock of its first request starts. A second call does nothing. A part that
        holds other parts prepares them. A model that a cache may make unnecessary can be loaded later, within
        ``context.tracker.clock.paused()``.
        """


@runtime_checkable
class DoubtedInputs(Protocol):
    """A part that can see from its recorded inputs that an option does not fit them, such as a score table's scale."""

    @property
    def doubts(self) -> Mapping[str, int]:
        """Warnings, in words that follow a number, with that number."""
        ...


@runtime_checkable
class RecordedQueries(Protocol):
    """A part with recorded inputs by query, such as a run file or a score table.

    The harness compares the recorded queries with those of the collection. An input without a common query is refused,
    and one that lacks some is a warning.
    """

    def recorded_queries(self) -> Mapping[str, Collection[str]]:
        """The queries of each recorded input, by the input's name in messages."""
        ...


@runtime_checkable
class RecordedDocuments(Protocol):
    """A part with recorded inputs by document, whatever the query; compared as those of :class:`RecordedQueries`."""

    def recorded_documents(self) -> Mapping[str, Collection[str]]:
        """The documents of each recorded input, by the input's name in messages."""
        ...


def queries_of(part: object) -> Mapping[str, Collection[str]]:
    """The recorded queries of a part; empty without recorded inputs."""
    return part.recorded_queries() if isinstance(part, RecordedQueries) else {}


def documents_of(part: object) -> Mapping[str, Collection[str]]:
    """The recorded documents of a part; empty without recorded inputs."""
    return part.recorded_documents() if isinstance(part, RecordedDocuments) else {}


def doubts_of(part: object) -> Mapping[str, int]:
    """The warnings of a part about its recorded inputs; empty without any."""
    return part.doubts if isinstance(part, DoubtedInputs) else {}
