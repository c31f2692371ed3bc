"""A document collection on disk, memory-mapped, and ids on disk."""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import IntArray
from ragtune.core.errors import DatasetError
from ragtune.core.hits import Facts
from ragtune.core.tokens import count_tokens
from ragtune.data.caches.diskcache import AUTO, DiskCache
from ragtune.data.corpus import EMPTY, Corpus, Document, DuplicateIdError, Lazy, digest_of

_COLUMNS = ("ids", "order", "ranks", "tokens", "ends")
_TEXTS, _FACTS = "texts.utf8", "facts.json"
_FORMAT = 7
"""Counts the changes of these files, and of how tokens are counted."""

_REMEMBERED = 2**15
"""Documents whose texts are remembered: the candidates of some hundred queries."""

_REPORT = 500_000
"""Documents between two lines of the log."""

_log = logging.getLogger(__name__)


class StoredIds(Sequence[str]):
    """Ids as UTF-8 of a fixed width, which may lie on disk. All mentions of an id share one text."""

    def __init__(self, column: NDArray[np.bytes_]) -> None:
        self.column = column

    @classmethod
    def of(cls, ids: Iterable[str]) -> StoredIds:
        """Hold ids in memory, to be saved as :attr:`column`."""
        return cls(np.array([name.encode() for name in ids], dtype=np.bytes_))

    def at(self, positions: Any) -> list[str]:
        """The ids at some positions, shape (k,), or in a slice."""
        names: list[bytes] = self.column[positions].tolist()
        return [sys.intern(name.decode()) for name in names]

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, place: Any) -> Any:
        return self.at(place) if isinstance(place, slice) else self.column[place].decode()


class StoredCorpus(Corpus):
    """A :class:`Corpus` on disk. Processes share its pages, and memory holds the documents that were read."""

    def __init__(self, folder: Path) -> None:
        columns = (np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in _COLUMNS)
        ids, self._order, self.id_ranks, self._tokens, self._ends = columns
        size, text_size = self._ends[-1], (folder / _TEXTS).stat().st_size
        if size != text_size:
            raise ValueError(f"{_TEXTS} has {text_size} bytes, expected are {size}")
        self._letters = np.memmap(folder / _TEXTS, np.uint8, "r").data if size else memoryview(b"")
        # digest and without_text, which Corpus computes from all documents and caches under the same names
        vars(self).update(json.loads((folder / _FACTS).read_text(encoding="ascii")))
        self.doc_ids = self._ids = StoredIds(ids)
        self.contents = Lazy(lambda i: self._document(i).content, range(len(ids)))
        self._known = {}

    @classmethod
    def write(cls, documents: Iterable[Document], folder: Path) -> None:
        """Fill an empty folder. Memory holds the ids and some bytes a document; progress is logged."""
        names, tokens, ends, without_text = list[str](), array("I"), array("q", [0]), 0
        with (folder / _TEXTS).open("wb") as file:

            def written(document: Document) -> Document:
                nonlocal without_text
                for part in (document.title, document.text):
                    ends.append(ends[-1] + file.write(part.encode()))
                content = document.content
                names.append(document.id)
                tokens.append(count_tokens(content))
                without_text += not content
                if len(names) % _REPORT == 0:
                    _log.info("corpus: %d documents read", len(names))
                return document

            digest = digest_of(map(written, documents))
        if not names:
            raise DatasetError(EMPTY)
        ids = StoredIds.of(names).column
        order = np.argsort(ids, kind="stable")
        again = order[1:][ids[order[1:]] == ids[order[:-1]]]
        if len(again):
            raise DuplicateIdError(names[again.min()])
        ranks = np.empty_like(order)
        ranks[order] = np.arange(len(order))
        columns: list[NDArray[Any]] = [ids, order, ranks]
        columns += [np.frombuffer(tokens, np.uint32), np.frombuffer(ends, np.int64)]
        for name, column in zip(_COLUMNS, columns, strict=True):
            np.save(folder / f"{name}.npy", column)
        facts = {"digest": digest, "without_text": without_text}
        (folder / _FACTS).write_text(json.dumps(facts), encoding="ascii")

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[Document]:
        return map(self._document, range(len(self)))

    def __contains__(self, doc_id: object) -> bool:
        return isinstance(doc_id, str) and bool(self.places([doc_id])[0] >= 0)

    def places(self, doc_ids: Sequence[str]) -> IntArray:
        ids = self._ids.column
        # Longer ones are cut, and told apart by their texts below.
        wanted = np.array([name.encode(errors="surrogatepass") for name in doc_ids], dtype=ids.dtype)
        places = np.minimum(ids.searchsorted(wanted, sorter=self._order), len(ids) - 1)
        found: IntArray = self._order[places]
        is_same = np.fromiter(map(str.__eq__, self._ids.at(found), doc_ids), bool, len(doc_ids))
        return np.where(is_same, found, -1)

    def ids_at(self, positions: Sequence[int]) -> list[str]:
        return self._ids.at(np.asarray(positions, dtype=np.intp))

    def _document(self, position: int) -> Document:
        begin, middle, end = self._ends[2 * position : 2 * position + 3].tolist()
        title, text = (str(self._letters[a:b], "utf-8") for a, b in ((begin, middle), (middle, end)))
        return Document(id=self._ids[position], title=title, text=text)

    def _look_up(self, position: int) -> Facts:
        if len(self._known) >= _REMEMBERED:  # or memory would grow with the number of queries
            self._known.clear()
        return super()._look_up(position)


def stored(documents: Callable[[], Iterable[Document]], key: str, cache_dir: str | Path | None = AUTO) -> StoredCorpus:
    """Return the documents as a :class:`StoredCorpus`, from the cache if it holds them under the key."""
    cache = DiskCache("corpus", cache_dir)
    found = cache.written(f"{_FORMAT} {key}", lambda folder: StoredCorpus.write(documents(), folder), StoredCorpus)
    if found is not None:
        return found
    # Without a cache: mapped files may be removed, where the system allows it.
    with tempfile.TemporaryDirectory(prefix="ragtune-corpus-", ignore_cleanup_errors=True) as scratch:
        StoredCorpus.write(documents(), Path(scratch))
        return StoredCorpus(Path(scratch))
