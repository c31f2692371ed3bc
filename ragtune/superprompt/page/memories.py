"""What the page searches, kept from one click to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragtune.superprompt.memory.base import BaseMemory
from ragtune.superprompt.memory.folders import DocumentSet
from ragtune.superprompt.options import PromptOptions
from ragtune.superprompt.options.model import MemoryOptions
from ragtune.superprompt.options.parts import collection_memory, document_memory, open_database

if TYPE_CHECKING:
    from ragtune.canonical.store.base import BaseDatabase


class Memories:
    """The memory of the latest options, and the database of the latest collection, whose connections stay open."""

    def __init__(self) -> None:
        self._key: object = None
        self._memory: BaseMemory | None = None
        self._server: object = None
        self._database: BaseDatabase | None = None

    def get(self, options: PromptOptions, *documents: DocumentSet) -> BaseMemory:
        """The memory, made anew where documents or options that concern it are others than the last time.

        Raises:
            InputError: on documents, or a collection, that cannot be used.
            StoreError: if the collection's database cannot be reached or started.
        """
        key = (documents, options.memory, options.embedder, options.chunking)
        if self._memory is None or key != self._key:
            self._memory = self._make(options, documents)
            self._key = key
        return self._memory

    def _make(self, options: PromptOptions, documents: tuple[DocumentSet, ...]) -> BaseMemory:
        if options.memory.collection is None:
            return document_memory(options, *documents)
        return collection_memory(options, self._open(options.memory), *documents)

    def _open(self, memory: MemoryOptions) -> BaseDatabase:
        server = (memory.dsn, memory.data_dir)
        if self._database is None or server != self._server:
            if self._database is not None:
                self._database.close()
                self._database = None
            self._database = open_database(memory)
            self._server = server
        return self._database
