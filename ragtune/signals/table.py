"""Numbers that were written down before."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ragtune.core.arguments import check_choice, check_flag
from ragtune.core.component import declare_files
from ragtune.core.errors import DatasetError
from ragtune.core.interfaces import BaseSignal
from ragtune.core.plain import quoted
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.files.records import DOC_ID, Schema, read_records
from ragtune.data.files.textfile import id_of, number_of
from ragtune.data.runs.run import Run
from ragtune.data.runs.runfile import read_run

_PAIR, _DOCUMENT = "pair", "document"
_SCHEMA = Schema({"doc_id": DOC_ID, "score": ("score", "value")}, frozenset({"doc_id", "score"}))


@declare_files(reads=["path"])
class TableSignal(BaseSignal):
    """Numbers from a file: another model's scores or clicks of query and document, or what is known of a document.

    Nothing is known of what the file lacks.
    """

    def __init__(
        self,
        path: str | Path,
        by: str = _PAIR,
        higher_is_better: bool = True,
        witness: bool = True,
    ) -> None:
        self.is_witness = check_flag("signal witness", witness)
        self._sign = 1.0 if check_flag("signal higher_is_better", higher_is_better) else -1.0
        of_documents = check_choice("signal by", by, (_PAIR, _DOCUMENT)) == _DOCUMENT
        self._name = f"signal table {Path(path).name}"
        self._known = _numbers(Path(path)) if of_documents else read_run(path)

    def recorded_queries(self) -> Mapping[str, Collection[str]]:
        return {self._name: self._known} if isinstance(self._known, Run) else {}

    def recorded_documents(self) -> Mapping[str, Collection[str]]:
        return {} if isinstance(self._known, Run) else {self._name: self._known}

    def values(self, context: RAGtuneContext, documents: Sequence[ScoredDocument]) -> Mapping[str, float]:
        known = self._known.scores(context.query_id) if isinstance(self._known, Run) else self._known
        return {document.id: self._sign * known[document.id] for document in documents if document.id in known}


def _numbers(path: Path) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for where, (given_id, given) in read_records(path, _SCHEMA):
        doc_id, number = id_of(given_id, where, "doc_id"), number_of(given, where, "score")
        if doc_id in numbers:
            raise DatasetError(f"{where}: document {quoted(doc_id)} comes twice")
        numbers[doc_id] = number
    return numbers
