"""What all parts of a controller have in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


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


def queries_of(part: Any) -> Mapping[str, Collection[str]]:
    """The queries of each recorded input of a part, such as a run file, by the input's name in messages.

    A part with such inputs has a method ``recorded_queries``. The harness compares the recorded queries with those of
    the collection. An input without a common query is refused, and one that lacks some is a warning.
    """
    return part.recorded_queries() if hasattr(part, "recorded_queries") else {}


def documents_of(part: Any) -> Mapping[str, Collection[str]]:
    """The documents of each recorded input of a part, whatever the query; compared as those of :func:`queries_of`.

    A part with such inputs has a method ``recorded_documents``.
    """
    return part.recorded_documents() if hasattr(part, "recorded_documents") else {}


def doubts_of(part: Any) -> Mapping[str, int]:
    """Warnings, in words that follow a number, with that number, from a part's property ``doubts``.

    A part has it that can see from its recorded inputs that an option does not fit them, such as a table's scale.
    """
    return getattr(part, "doubts", {})
