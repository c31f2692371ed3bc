"""What all parts of a controller have in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping


class Component:
    """A part of a controller that can be made ready before the first request.

    Attributes:
        reads_budget: whether what it says may depend on the request's limits or on what is left of them. A wish that
            :func:`ragtune.core.policy.batching.propose` cuts to what is left does not. Where no part of a policy reads
            the budget, one request answers for many budgets (:meth:`RAGtuneController.run_under`); what such a part
            remembers must survive ``copy.deepcopy``. The contract suites catch one that says False and reads.
        reads_files: names of the constructor's arguments that name files or folders which it reads. Their content is
            part of a run's identity, as are the options that choose the component.
        keeps_files: names of the arguments that name files or folders which it writes itself, such as a cache. They are
            no part of a run's identity. A file that an argument of neither list names counts as read. The contract
            suites catch an argument that names a file and is in neither list.
    """

    reads_budget: bool = True
    reads_files: Collection[str] = ()
    keeps_files: Collection[str] = ("cache_dir",)

    def prepare(self) -> None:
        """Load models, import what is imported lazily, warm up: whatever must not run on a request's clock.

        The controller calls it before the clock of its first request starts. Calling it again does nothing. A component
        that holds others prepares them. A model that may turn out to be needless (a cache holds what it would say) can
        be loaded later, within ``context.tracker.clock.paused()``.
        """

    @property
    def doubts(self) -> Mapping[str, int]:
        """What speaks against recorded inputs, in words that follow a number, with that number; empty by default."""
        return {}

    def recorded_queries(self) -> Mapping[str, Collection[str]]:
        """The queries that each of its recorded inputs knows, by the input's name in messages; empty without any.

        The harness compares them with the queries of the collection: an input that knows none of them is refused, and
        one that lacks some is a warning.
        """
        return {}

    def recorded_documents(self) -> Mapping[str, Collection[str]]:
        """The same of documents, for inputs that say something of documents whatever the query."""
        return {}
