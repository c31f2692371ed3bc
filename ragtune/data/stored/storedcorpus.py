"""A document collection on disk, memory-mapped."""

from __future__ import annotations

import json
import logging
import mmap
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

import numpy as np

from ragtune.core.arrays import IntArray
from ragtune.core.errors import DatasetError
from ragtune.core.hits import Facts
from ragtune.core.tokens import count_tokens
from ragtune.data.caches.diskcache import AUTO, DiskCache
from ragtune.data.corpus import EMPTY, Corpus, Document, DuplicateIdError, digest_of
from ragtune.data.stored.storedids import StoredIds

_TEXTS, _ENDS, _TOKENS, _RANKS, _FACTS = "documents.bin", "ends.npy", "tokens.npy", "ranks.npy", "facts.json"
_FORMAT = 5
"""Counts the changes of these files, and of how tokens are counted, so that what another version has kept is neither
taken for damaged nor for this one's."""

_REMEMBERED = 2**15
"""Documents whose texts are remembered: the candidates of some hundred queries."""

_REPORT = 500_000
"""Documents between two lines of the log."""

T = TypeVar("T", covariant=True)
_log = logging.getLogger(__name__)


class _Column(Sequence[T], Generic[T]):
    """One value of each document, read when it is asked for."""

    def __init__(self, size: int, read: Callable[[int], T]) -> None:
        self._size, self._read = size, read

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, i):  # type: ignore[no-untyped-def]
        places = range(self._size)[i]
        return self._read(places) if isinstance(places, int) else list(map(self._read, places))


class StoredCorpus(Corpus):
    """A :class:`Corpus` whose documents stay on disk: many processes share them, and memory holds those that are read.

    Args:
        folder: what :meth:`write` has filled.

    Raises:
        OSError, ValueError: if the files are damaged.
    """

    def __init__(self, folder: Path) -> None:
        columns = (np.asarray(np.load(folder / name, mmap_mode="r")) for name in (_ENDS, _TOKENS, _RANKS))
        self._ends, self._tokens, self.id_ranks = columns
        with (folder / _TEXTS).open("rb") as file:
            texts = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        # What is known of all documents, without reading them: those of Corpus itself are cached in the same way.
        vars(self).update(json.loads((folder / _FACTS).read_text(encoding="ascii")))
        self._stored = _Documents(texts, self._ends)
        self._ids = StoredIds.load(folder, self._stored)
        self._begin(count_tokens)

    @classmethod
    def write(cls, documents: Iterable[Document], folder: Path) -> None:
        """Fill an empty folder. Memory holds the ids and where each document ends; progress is logged.

        Raises:
            DatasetError: if there is no document, or an id comes twice.
        """
        ends, tokens, at, longest, without_text = array("q"), array("I"), 0, 0, 0
        with (folder / _TEXTS).open("wb") as file:

            def kept(document: Document) -> Document:
                nonlocal at, longest, without_text
                for part in (document.id, document.title, document.text):
                    at += file.write(part.encode())
                    ends.append(at)
                longest = max(longest, len(document.id.encode()))
                content = document.content
                tokens.append(count_tokens(content))
                without_text += not content
                if len(ends) % (3 * _REPORT) == 0:
                    _log.info("corpus: %d documents read", len(ends) // 3)
                return document

            digest = digest_of(map(kept, documents))
        if not ends:
            raise DatasetError(EMPTY)
        np.save(folder / _ENDS, np.frombuffer(ends, dtype=np.int64).reshape(-1, 3))
        np.save(folder / _TOKENS, np.frombuffer(tokens, dtype=np.uint32))
        facts = {"digest": digest, "without_text": without_text}
        (folder / _FACTS).write_text(json.dumps(facts), encoding="ascii")
        _write_ids(folder, longest)

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[Document]:
        return map(self._document, range(len(self)))

    def _facts(self, positions: Sequence[int]) -> Sequence[Facts]:
        return _FactsAt(self._fact, positions)

    def _look_up(self, position: int) -> Facts:
        if len(self._known) >= _REMEMBERED:  # or memory would grow with the number of queries
            self._known.clear()
        return super()._look_up(position)

    def _token_counts(self, positions: Sequence[int]) -> list[int]:
        counts: list[int] = self._tokens[positions].tolist()
        return counts

    def _tokens_of(self, position: int) -> int:
        return int(self._tokens[position])

    @cached_property
    def doc_ids(self) -> Sequence[str]:
        return _Column(len(self), self._id)

    @cached_property
    def contents(self) -> Sequence[str]:
        return _Column(len(self), lambda i: self._document(i).content)

    def places(self, doc_ids: Sequence[str]) -> IntArray:
        return self._ids.places(doc_ids)

    def _find(self, doc_id: object) -> int | None:
        return self._ids.get(doc_id)  # type: ignore[call-overload,no-any-return]

    def ids_at(self, positions: Sequence[int]) -> list[str]:
        return self._ids.at_places(self.id_ranks[np.asarray(positions, dtype=np.intp)])

    def _id(self, position: int) -> str:
        return self._stored.at(position).decode()

    def _document(self, position: int) -> Document:
        return self._stored.document(position)


class _Documents:
    """Documents, and their ids alone, by position."""

    def __init__(self, texts: mmap.mmap, ends: IntArray) -> None:
        self._texts, self._ends = texts, ends

    def at(self, position: int) -> bytes:
        return self._texts[_begin(self._ends, position) : self._ends.item(position, 0)]

    def between(self, first: int, last: int) -> list[str]:
        return [self.at(position).decode() for position in range(first, last)]

    def document(self, position: int) -> Document:
        first, second, third = self._ends[position].tolist()
        begin = _begin(self._ends, position)
        whole = self._texts[begin:third]
        return Document(
            id=whole[: first - begin].decode(),
            title=whole[first - begin : second - begin].decode(),
            text=whole[second - begin :].decode(),
        )


class _FactsAt(Sequence[Facts]):
    """What is known of some documents, read when it is looked at; they travel as a list, with their texts.

    Args:
        read: reads the document at a position.
        positions: theirs.
    """

    def __init__(self, read: Callable[[int], Facts], positions: Sequence[int]) -> None:
        self._read, self._positions = read, positions

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, i: int) -> Facts: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[Facts]: ...
    def __getitem__(self, i: int | slice) -> Facts | Sequence[Facts]:
        if isinstance(i, slice):
            return _FactsAt(self._read, self._positions[i])
        return self._read(self._positions[i])

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


def _begin(ends: IntArray, position: int) -> int:
    begin: int = ends.item(position - 1, 2) if position else 0
    return begin


def _write_ids(folder: Path, longest: int) -> None:
    ends = np.load(folder / _ENDS, mmap_mode="r")
    with (folder / _TEXTS).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as texts:
        ids = _Documents(texts, ends)
        # Named is the one at which reading line by line would stop.
        if (twice := StoredIds.index(len(ends), ids.at, longest, folder)) is not None:
            raise DuplicateIdError(ids.at(twice).decode())
    ranks = np.empty(len(ends), dtype=np.intp)
    ranks[StoredIds.load(folder, ids).order] = np.arange(len(ends))
    np.save(folder / _RANKS, ranks)


def stored(documents: Callable[[], Iterable[Document]], key: str, cache_dir: str | Path | None = AUTO) -> StoredCorpus:
    """The documents as a :class:`StoredCorpus`, read anew where the cache does not hold them.

    Args:
        documents: reads them.
        key: everything that they depend on.
        cache_dir: as of :class:`~ragtune.data.caches.diskcache.DiskCache`.

    Raises:
        DatasetError: as of :meth:`StoredCorpus.write`.
    """

    def build() -> StoredCorpus | None:
        return None

    def save(_: object, folder: Path) -> None:
        StoredCorpus.write(documents(), folder)

    found = DiskCache("corpus", cache_dir).fetch(f"{_FORMAT} {key}", build, save, StoredCorpus, is_mapped=True)
    return _set_aside(documents) if found is None else found


def _set_aside(documents: Callable[[], Iterable[Document]]) -> StoredCorpus:
    """The documents in files that are gone with them."""
    # Mapped files may be removed, where the system allows it; where not, the system's own clearing must do.
    with tempfile.TemporaryDirectory(prefix="ragtune-corpus-", ignore_cleanup_errors=True) as scratch:
        StoredCorpus.write(documents(), Path(scratch))
        return StoredCorpus(Path(scratch))
