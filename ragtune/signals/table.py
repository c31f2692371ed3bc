"""Numbers that were written down before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ragtune.core.interfaces import BaseSignal
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.runfile import read_run


class TableSignal(BaseSignal):
    """Numbers of (query, document) pairs from a file: another model's scores, clicks.

    Args:
        path: a file in any form of :func:`ragtune.data.runfile.read_run`; higher is better.
        query_ids: the collection's queries in its order, which the responses of a file of ``_msearch`` are in.

    Raises:
        DatasetError: if the file is unusable.
    """

    def __init__(self, path: str | Path, query_ids: Sequence[str] = ()) -> None:
        run = read_run(path, query_ids)
        self._values = {query_id: {e.doc_id: e.score for e in entries} for query_id, entries in run.items()}

    def values(self, context: RAGtuneContext, documents: Sequence[ScoredDocument]) -> Mapping[str, float]:
        known = self._values.get(context.query_id, {})
        return {document.id: known[document.id] for document in documents if document.id in known}
