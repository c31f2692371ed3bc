"""What a caller knows of documents: how recent they are, how often they were chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragtune.core.arguments import check_flag, check_number
from ragtune.core.interfaces import BaseSignal
from ragtune.core.plain import quoted
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument


class MetadataSignal(BaseSignal):
    """A number that documents carry in their metadata. Nothing is known of one that lacks it, or has None there."""

    def __init__(self, field: str, higher_is_better: bool = True) -> None:
        self.field = field
        self._sign = 1.0 if check_flag("signal higher_is_better", higher_is_better) else -1.0

    def values(self, context: RAGtuneContext, documents: Sequence[ScoredDocument]) -> Mapping[str, float]:
        given = {document.id: document.metadata.get(self.field) for document in documents}
        return {
            doc_id: self._sign * check_number(f"document {quoted(doc_id)}: {self.field}", value)
            for doc_id, value in given.items()
            if value is not None
        }
