"""Test collections: the data, and the interface of a loader."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from sys import intern

import numpy as np

from ragtune.core.arguments import as_python
from ragtune.core.component import Component, documents_of, queries_of
from ragtune.core.errors import ConfigError, DatasetError
from ragtune.core.plain import quoted
from ragtune.data.corpus import Corpus
from ragtune.data.files.textfile import require_id
from ragtune.data.join import Join, joined

Qrels = Mapping[str, Mapping[str, int]]

HIGHEST_GRADE = 10**6
"""The largest absolute value of a grade: trec_eval counts in an array as long as the highest grade."""


@dataclass(frozen=True)
class Dataset:
    """A loaded collection.

    Attributes:
        name: short identifier, e.g. ``nfcorpus/test``.
        corpus: the documents.
        queries: text by query id, in the order in which they are replayed.
        qrels: graded judgments of the judged queries; empty for a collection without judgments.
        warnings: number of odd things that were found and kept, by description.
        joins: how many ids of its parts and of the recorded inputs match, see :meth:`joining`.
    """

    name: str
    corpus: Corpus
    queries: Mapping[str, str]
    qrels: Qrels
    warnings: Mapping[str, int] = field(default_factory=dict)
    joins: Sequence[Join] = ()

    @cached_property
    def query_ids(self) -> Sequence[str]:
        """Ids of the queries, in replay order."""
        return list(self.queries)

    @cached_property
    def judged(self) -> Sequence[str]:
        """Ids of the queries that count in the measures, in replay order; all where there are no judgments."""
        return list(filter(self.counts, self.query_ids))

    def counts(self, query_id: str) -> bool:
        """Return whether a query counts in the measures."""
        return query_id in self.qrels or not self.qrels

    def joining(self, inputs: Iterable[Component]) -> Dataset:
        """Return the dataset together with recorded inputs: runs, score tables, signals.

        Its ``joins`` count the queries and documents that each of them covers; its ``warnings`` name gaps and doubts.

        Raises:
            DatasetError: if one has no query, or no document, in common with the collection.
        """
        counted, documents = dict.fromkeys(self.judged), _DocumentIds(self.corpus)
        left = "judged queries" if self.qrels else "queries"
        joins: list[Join] = []
        doubts: dict[str, int] = {}
        for part in inputs:
            doubts |= getattr(part, "doubts", {})
            joins += [joined(left, counted, name, ids) for name, ids in queries_of(part).items()]
            joins += [joined("documents", documents, name, ids) for name, ids in documents_of(part).items()]
        gaps = {join.gap: join.missing for join in joins if join.require_any().missing}
        return replace(self, joins=[*self.joins, *joins], warnings={**self.warnings, **gaps, **doubts})

    def every(self, n: int) -> Dataset:
        """Return the dataset with every n-th query only, beginning with the first; its name contains n."""
        if n == 1:
            return self
        return self._only(list(islice(self.queries, 0, None, n)), f"every-{n}")

    def sampled(self, queries: int, seed: int) -> Dataset:
        """Return the dataset with a random sample of the queries that count, in order; its name contains the size."""
        if queries >= len(self.judged):
            return self
        drawn = np.random.default_rng(seed).choice(len(self.judged), queries, replace=False)
        return self._only([self.judged[i] for i in sorted(drawn.tolist())], f"sample-{queries}")

    def _only(self, query_ids: Sequence[str], how: str) -> Dataset:
        queries = {query_id: self.queries[query_id] for query_id in query_ids}
        qrels = {query_id: grades for query_id, grades in self.qrels.items() if query_id in queries}
        return replace(self, name=f"{self.name}/{how}", queries=queries, qrels=qrels)


class DatasetLoader(ABC):
    """Finds and reads a collection."""

    @abstractmethod
    def load(self) -> Dataset:
        """Read the collection.

        Raises:
            DatasetError: naming the folder, file, line or id that is wrong.
        """

    @abstractmethod
    def files(self) -> list[Path]:
        """Return the files that decide what is loaded; empty if the configuration decides alone."""


def assemble(name: str, corpus: Corpus, queries: Mapping[str, str], qrels: Qrels | None) -> Dataset:
    """Make a dataset of its parts, check it, and count odd things in it.

    Args:
        name: short identifier.
        corpus: the documents.
        queries: text by query id.
        qrels: graded judgments; None for a collection without judgments.

    Raises:
        DatasetError: if there are no judgments where there should be, a grade is no whole number, a judged query has no
            text, or judgments have no query or no document in common with the rest.
    """
    for query_id, text in queries.items():
        if not isinstance(query_id, str) or not isinstance(text, str):
            raise DatasetError(f"dataset {name!r}: query {quoted(query_id)} is {quoted(text)}: allowed are texts")
    if qrels is None:
        return Dataset(name, corpus, queries, {})
    if not qrels:
        raise DatasetError(f"dataset {name!r} has no judgments: at least one judged query is needed")
    where = f"dataset {name!r}: query"
    qrels = {
        query_id: {d: _require_grade(grade, f"{where} {query_id!r}, document {d!r}: ") for d, grade in grades.items()}
        for query_id, grades in qrels.items()
    }
    judged = {doc_id: True for grades in qrels.values() for doc_id in grades}
    texts = joined("judged queries", qrels, "the queries", queries)
    found = joined("judged documents", judged, "the corpus", _DocumentIds(corpus))
    try:
        for join in (texts, found):
            join.require_any()
    except DatasetError as error:
        raise DatasetError(f"dataset {name!r}: {error}") from None
    if texts.missing:
        raise DatasetError(
            f"dataset {name!r}: {texts.missing} judged queries have no text, e.g. {quoted(texts.left_only)}; "
            f"{texts.matched} of {texts.left_size} have one{texts.hint}"
        )
    warnings = {
        "queries without judgments (replayed, not measured)": len(queries) - texts.matched,
        "documents without text (kept)": corpus.without_text,
        f"judged documents that the corpus does not hold (kept in the ideal ranking){found.hint}": found.missing,
    }
    counted = {what: n for what, n in warnings.items() if n}
    return Dataset(name, corpus, queries, qrels, counted, [texts, found])


class _DocumentIds(Collection[str]):
    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def __contains__(self, one: object) -> bool:
        return one in self._corpus

    def __iter__(self) -> Iterator[str]:
        return iter(self._corpus.doc_ids)

    def __len__(self) -> int:
        return len(self._corpus)


def chosen_fields(fields: Mapping[str, str], wanted: Sequence[str], where: str) -> str:
    """The text of a query with several fields: the wanted ones in their order, joined by a space."""
    missing = [name for name in wanted if name not in fields]
    if missing:
        has = f"it has {', '.join(fields)}" if fields else "it has none"
        raise DatasetError(f"{where} no field {missing[0]!r}: {has}; dataset.query_fields chooses")
    return " ".join(fields[name] for name in wanted)


def field_names(query_fields: str | Sequence[str] | None) -> list[str]:
    """The option ``dataset.query_fields`` as a list; empty for the default."""
    names = [query_fields] if isinstance(query_fields, str) else list(query_fields or ())
    if not all(isinstance(name, str) and name for name in names):
        raise ConfigError(
            f"dataset.query_fields={query_fields!r}: allowed is a name or a list, e.g. [title,description]"
        )
    return names


def add_judgment(qrels: dict[str, dict[str, int]], query_id: str, doc_id: str, grade: object, where: str) -> None:
    """Add a judgment to ``qrels``. A repeated judgment with the same grade counts once.

    Args:
        qrels: grades by query and document.
        query_id, doc_id: the judged pair.
        grade: a whole number, of Python or NumPy.
        where: the place of the judgment, as messages begin, e.g. ``qrels.tsv:12: ``.

    Raises:
        DatasetError: beginning with ``where``, if an id is invalid, the grade is out of range, or the pair has another
            grade already.
    """
    if query_id not in qrels:
        require_id(query_id, f"{where}query id")
    require_id(doc_id, f"{where}document id")
    whole = _require_grade(grade, where)
    first = qrels.setdefault(query_id, {}).setdefault(intern(doc_id), whole)  # many queries judge one document
    if first != whole:
        raise DatasetError(
            f"{where}document {quoted(doc_id)} is judged {first} and {whole} for query {quoted(query_id)}: one must go"
        )


def _require_grade(grade: object, where: str) -> int:
    whole = as_python(grade)
    if type(whole) is int and -HIGHEST_GRADE <= whole <= HIGHEST_GRADE:
        return whole
    raise DatasetError(
        f"{where}grade {quoted(grade)}: allowed is a whole number from -{HIGHEST_GRADE} to {HIGHEST_GRADE}"
    )
