"""What a test collection is to the harness."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

from ragtune.core.corpus import Corpus
from ragtune.core.errors import DatasetError

Qrels = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Dataset:
    """A loaded collection.

    Attributes:
        name: short identifier, e.g. ``nfcorpus/test``.
        corpus: the documents.
        queries: text by query id, in the order in which they are replayed.
        qrels: graded judgments of the judged queries.
        warnings: what was odd but kept, with counts.
    """

    name: str
    corpus: Corpus
    queries: Mapping[str, str]
    qrels: Qrels
    warnings: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def judged(self) -> list[str]:
        """Ids of the queries that count in the measures, in replay order."""
        return [query_id for query_id in self.queries if query_id in self.qrels]

    def every(self, n: int) -> Dataset:
        """The dataset with every n-th query only, from the first on; the name says so."""
        if n == 1:
            return self
        queries = dict(islice(self.queries.items(), 0, None, n))
        qrels = {query_id: grades for query_id, grades in self.qrels.items() if query_id in queries}
        return replace(self, name=f"{self.name}/every-{n}", queries=queries, qrels=qrels)


class DatasetLoader(ABC):
    """Finds and reads a collection."""

    @abstractmethod
    def load(self) -> Dataset:
        """The collection.

        Raises:
            DatasetError: naming the folder, file, line or id that is wrong.
        """


def assemble(name: str, corpus: Corpus, queries: Mapping[str, str], qrels: Qrels) -> Dataset:
    """A dataset from its parts: checked, odd things counted.

    Raises:
        DatasetError: if there are no judgments, or a judged query has no text.
    """
    if not qrels:
        raise DatasetError(f"dataset {name!r} has no judgments: at least one judged query is needed")
    missing = [query_id for query_id in qrels if query_id not in queries]
    if missing:
        raise DatasetError(f"dataset {name!r}: {len(missing)} judged queries have no text, e.g. {missing[0]!r}")
    warnings = {
        "queries without judgments (replayed, not measured)": sum(q not in qrels for q in queries),
        "documents without text (kept)": sum(not document.content for document in corpus),
        "judged documents that the corpus does not hold (kept in the ideal ranking)": len(
            {d for grades in qrels.values() for d in grades if d not in corpus}
        ),
    }
    return Dataset(name, corpus, queries, qrels, {what: n for what, n in warnings.items() if n})
