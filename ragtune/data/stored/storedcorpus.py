"""A document collection on disk, memory-mapped."""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, overload

import numpy as np

from ragtune.core.arrays import IntArray
from ragtune.core.errors import DatasetError
from ragtune.core.hits import Facts
from ragtune.core.tokens import count_tokens
from ragtune.data.caches.diskcache import AUTO, DiskCache
from ragtune.data.corpus import EMPTY, Corpus, Document, DuplicateIdError, digest_of, id_ranks
from ragtune.data.stored.strings import IdIndex, StoredStrings, StringWriter

_IDS, _TITLES, _TEXTS, _TOKENS, _RANKS, _FACTS = "ids", "titles", "texts", "tokens.npy", "ranks.npy", "facts.json"
_FORMAT = 6
"""Counts the changes of these files, and of how tokens are counted."""

_REMEMBERED = 2**15
"""Documents whose texts are remembered: the candidates of some hundred queries."""

_REPORT = 500_000
"""Documents between two lines of the log."""

_WIDTH = 64
"""Bytes of the longest id that is sorted in an array."""

_log = logging.getLogger(__name__)


class StoredCorpus(Corpus):
    """A :class:`Corpus` on disk. Processes share its pages, and memory holds the documents that were read."""

    def __init__(self, folder: Path) -> None:
        self._tokens, self.id_ranks = (np.asarray(np.load(folder / name, mmap_mode="r")) for name in (_TOKENS, _RANKS))
        self._ids, self._titles, self._texts = (StoredStrings.load(folder, name) for name in (_IDS, _TITLES, _TEXTS))
        # digest and without_text, which Corpus computes from all documents and caches under the same names
        vars(self).update(json.loads((folder / _FACTS).read_text(encoding="ascii")))
        self.doc_ids, self.contents = self._ids, _Contents(self._titles, self._texts)
        self._by_id = IdIndex(folder, self._ids)
        self._begin(count_tokens)

    @classmethod
    def write(cls, documents: Iterable[Document], folder: Path) -> None:
        """Fill an empty folder. Memory holds some bytes a document; progress is logged."""
        tokens, without_text = array("I"), 0
        with ExitStack() as stack:
            ids, titles, texts = (StringWriter(folder, name, stack) for name in (_IDS, _TITLES, _TEXTS))

            def written(document: Document) -> Document:
                nonlocal without_text
                for writer, part in ((ids, document.id), (titles, document.title), (texts, document.text)):
                    writer.add(part)
                content = document.content
                tokens.append(count_tokens(content))
                without_text += not content
                if len(tokens) % _REPORT == 0:
                    _log.info("corpus: %d documents read", len(tokens))
                return document

            digest = digest_of(map(written, documents))
            for writer in (ids, titles, texts):
                writer.finish()
        if not tokens:
            raise DatasetError(EMPTY)
        names = StoredStrings.load(folder, _IDS)
        if (twice := IdIndex.write(names, folder)) is not None:
            raise DuplicateIdError(names[twice])
        np.save(folder / _TOKENS, np.frombuffer(tokens, dtype=np.uint32))
        np.save(folder / _RANKS, _ranks(names))
        facts = {"digest": digest, "without_text": without_text}
        (folder / _FACTS).write_text(json.dumps(facts), encoding="ascii")

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[Document]:
        return map(self._document, range(len(self)))

    def places(self, doc_ids: Sequence[str]) -> IntArray:
        return self._by_id.positions(doc_ids)

    def ids_at(self, positions: Sequence[int]) -> list[str]:
        # Interned, so that all mentions of a document share one text.
        return list(map(sys.intern, self._ids.at(np.asarray(positions, dtype=np.intp))))

    def _find(self, doc_id: object) -> int | None:
        return self._by_id.get(doc_id)

    def _document(self, position: int) -> Document:
        return Document(id=self._ids[position], title=self._titles[position], text=self._texts[position])

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


def _ranks(ids: StoredStrings) -> IntArray:
    """As :func:`id_ranks`; bytes of a fixed width, which sort in the same order, take an eighth of the memory."""
    width = max(len(name.encode()) for name in ids)
    if width > _WIDTH:
        return id_ranks(list(ids))
    ranks = np.empty(len(ids), dtype=np.intp)
    ranks[np.argsort(np.fromiter((name.encode() for name in ids), f"S{width}", len(ids)))] = np.arange(len(ids))
    return ranks


class _Contents(Sequence[str]):
    """Title and text of every document, read when it is asked for."""

    def __init__(self, titles: StoredStrings, texts: StoredStrings) -> None:
        self._titles, self._texts = titles, texts

    def __len__(self) -> int:
        return len(self._titles)

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> list[str]: ...
    def __getitem__(self, i: int | slice) -> str | list[str]:
        if isinstance(i, slice):
            return [self[place] for place in range(*i.indices(len(self)))]
        return f"{self._titles[i]} {self._texts[i]}".strip()


class _FactsAt(Sequence[Facts]):
    """Facts of the documents at some positions, read when they are asked for; pickled as a list."""

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


def stored(documents: Callable[[], Iterable[Document]], key: str, cache_dir: str | Path | None = AUTO) -> StoredCorpus:
    """Return the documents as a :class:`StoredCorpus`, from the cache if it holds them."""
    cache = DiskCache("corpus", cache_dir)
    found = cache.written(f"{_FORMAT} {key}", lambda folder: StoredCorpus.write(documents(), folder), StoredCorpus)
    if found is not None:
        return found
    # Without a cache: mapped files may be removed, where the system allows it.
    with tempfile.TemporaryDirectory(prefix="ragtune-corpus-", ignore_cleanup_errors=True) as scratch:
        StoredCorpus.write(documents(), Path(scratch))
        return StoredCorpus(Path(scratch))
