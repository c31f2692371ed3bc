"""Collections of the ir_datasets catalogue (MacAvaney et al., SIGIR 2021)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from experiments.datasets.dataset import (
    Dataset,
    DatasetLoader,
    add_judgment,
    assemble,
    chosen_fields,
    field_names,
)
from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted
from ragtune.data.corpus import Corpus, Document
from ragtune.data.files.textfile import require_id, require_text


class IrdsDataset(DatasetLoader):
    """Any ir_datasets id with documents, queries and judgments, e.g. ``beir/scifact/test``."""

    def __init__(self, id: str, query_fields: str | Sequence[str] | None = None) -> None:
        import ir_datasets

        self._fields = field_names(query_fields)
        try:
            self._dataset: Any = ir_datasets.load(id)
        except KeyError:
            raise DatasetError(
                f"unknown ir_datasets id {id!r}: see `ir_datasets list`, e.g. 'beir/scifact/test'"
            ) from None
        self.name = id
        for part in ("docs", "queries", "qrels"):
            if not getattr(self._dataset, f"has_{part}")():
                raise DatasetError(f"ir_datasets {id!r} has no {part}: choose an id that has docs, queries and qrels")

    def load(self) -> Dataset:
        try:
            corpus = Corpus(self._documents())
            queries = self._queries()
            qrels = self._qrels()
        except (ValueError, IndexError, TypeError) as error:
            if isinstance(error, DatasetError):
                raise
            reason = quoted(" ".join(str(error).split()))[1:-1]
            raise DatasetError(f"ir_datasets {self.name!r} holds a malformed line: {reason}") from error
        except (OSError, RuntimeError) as error:
            raise DatasetError(
                f"cannot read ir_datasets {self.name!r}: {error}; without a network, put its files where ir_datasets "
                "looks (environment variable IR_DATASETS_HOME)"
            ) from error
        return assemble(self.name, corpus, queries, qrels)

    def files(self) -> list[Path]:
        return []  # the catalogue's files are fixed by the id

    def _documents(self) -> Iterator[Document]:
        for document in self._dataset.docs_iter():
            title = getattr(document, "title", "") or ""
            text = getattr(document, "text", None)
            if text is None:
                title, text = "", document.default_text()
            doc_id = self._id(document.doc_id, "document")
            for value in (title, text):
                require_text(value, f"ir_datasets {self.name!r}: text of document {doc_id!r} is")
            yield Document.model_construct(id=doc_id, text=text, title=title)

    def _queries(self) -> dict[str, str]:
        queries: dict[str, str] = {}
        for query in self._dataset.queries_iter():
            query_id = self._id(query.query_id, "query")
            if query_id in queries:
                raise DatasetError(f"ir_datasets {self.name!r}: duplicate query id {quoted(query_id)}")
            where = f"ir_datasets {self.name!r}: query {query_id!r}"
            queries[query_id] = require_text(self._text(query, where), f"{where} is")
        return queries

    def _text(self, query: Any, where: str) -> str:
        if not self._fields:
            return str(query.default_text())
        fields = {name: value for name, value in query._asdict().items() if isinstance(value, str) and value}
        return chosen_fields(fields, self._fields, f"{where} has")

    def _qrels(self) -> dict[str, dict[str, int]]:
        qrels: dict[str, dict[str, int]] = {}
        for qrel in self._dataset.qrels_iter():
            add_judgment(qrels, qrel.query_id, qrel.doc_id, qrel.relevance, f"ir_datasets {self.name!r}: ")
        return qrels

    def _id(self, value: str, kind: str) -> str:
        return require_id(value, f"ir_datasets {self.name!r}: {kind} id")
