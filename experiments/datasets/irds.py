"""Collections of the ir_datasets catalogue (MacAvaney et al., SIGIR 2021)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from experiments.datasets.dataset import Dataset, DatasetLoader, assemble
from ragtune.core.corpus import Corpus, Document
from ragtune.core.errors import DatasetError


class IrdsDataset(DatasetLoader):
    """Any ir_datasets id with documents, queries and judgments, e.g. ``beir/scifact/test``.

    Datasets registered in the process (``ir_datasets.registry.register``) work as the catalogue's do.

    Args:
        id: the catalogue's identifier.

    Raises:
        DatasetError: if the id is unknown, a part is missing, or its files cannot be had.
    """

    def __init__(self, id: str) -> None:
        import ir_datasets

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
            queries = {query.query_id: query.default_text() for query in self._dataset.queries_iter()}
            qrels: dict[str, dict[str, int]] = {}
            for qrel in self._dataset.qrels_iter():
                qrels.setdefault(qrel.query_id, {})[qrel.doc_id] = qrel.relevance
        except DatasetError:
            raise
        except (ValueError, IndexError, TypeError) as error:
            raise DatasetError(f"ir_datasets {self.name!r} holds a malformed line: {error}") from error
        except (OSError, RuntimeError) as error:
            raise DatasetError(
                f"cannot read ir_datasets {self.name!r}: {error}; without a network, put its files where ir_datasets "
                "looks (environment variable IR_DATASETS_HOME)"
            ) from error
        return assemble(self.name, corpus, queries, qrels)

    def _documents(self) -> Iterator[Document]:
        for document in self._dataset.docs_iter():
            title = getattr(document, "title", "") or ""
            text = getattr(document, "text", None)
            if text is None:
                title, text = "", document.default_text()
            yield Document.model_construct(id=document.doc_id, text=text, title=title)
