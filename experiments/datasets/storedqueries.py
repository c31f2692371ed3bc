"""Queries of large files on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Self

from experiments.datasets.stored import Stored, TwiceError
from ragtune.data.stored.storedids import StoredIds
from ragtune.data.stored.storedstrings import StoredStrings
from ragtune.data.stored.stringrows import StringRows, some_at_once

_TEXTS = "texts"


class StoredQueries(Stored[str]):
    """Texts of queries.

    Args:
        ids: the queries.
        texts: at their positions.
    """

    def __init__(self, ids: StoredIds, texts: StoredStrings) -> None:
        super().__init__(ids)
        self._texts = texts

    def _at(self, position: int) -> str:
        return self._texts.at(position).decode()

    def __iter__(self) -> Iterator[str]:
        return iter(self.query_ids)

    @cached_property
    def query_ids(self) -> Sequence[str]:
        """The ids in their order."""
        return self._ids.in_order()

    @property
    def numbers(self) -> Mapping[str, int]:
        """A number of each query, which rises in their order."""
        return self._ids

    def only(self, query_ids: Iterable[str]) -> Self:
        return type(self)(self._ids.only(query_ids), self._texts)

    @staticmethod
    def save(values: Iterable[tuple[str, str]], folder: Path) -> None:
        ids, texts = StringRows(folder), StringRows(folder)
        for some in some_at_once(values):
            ids.extend(query_id for query_id, _ in some)
            texts.extend(text for _, text in some)
        if StoredIds.save(ids.whole(), folder) is not None:
            raise TwiceError
        texts.whole().save(folder, _TEXTS)

    @classmethod
    def load(cls, folder: Path) -> Self:
        return cls(StoredIds.load(folder), StoredStrings.load(folder, _TEXTS))
