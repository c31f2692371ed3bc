"""A model's recorded scores in its place, for the questions that they were recorded for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ragtune.core.request.context import CostMeter
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus, Document
from ragtune.data.files.records import Schema, read_records
from ragtune.rerankers.replay import ReplayReranker
from ragtune.superprompt.chunks import document_of
from ragtune.superprompt.memory.folders import COLLECTION
from ragtune.superprompt.pieces import normalized_query
from ragtune.superprompt.reranking.base import BaseRerankStage, Reranked
from ragtune.superprompt.reranking.documents import DocumentRerankStage
from ragtune.superprompt.reranking.top import TopRerankStage

QUESTIONS = "queries.jsonl"
_QUERIES = Schema({"_id": ("_id",), "text": ("text",)}, frozenset({"_id", "text"}), is_text=True)
_DOCUMENTS = Schema({**_QUERIES.names, "title": ("title",)}, _QUERIES.required, is_text=True)
_WORD = re.compile(r"\w+")


class RecordedRerankStage(BaseRerankStage):
    """Scores of a collection's own questions from its score table; every other prompt goes to another stage.

    A prompt is one of these questions if it has the same words in the same order, and nothing else (but a format). All
    candidates must be whole documents of the collection: a turn, or a part of a document, has no recorded score.

    Args:
        name: the collection's name.
        corpus: the documents that were scored.
        questions: ids of the questions by text.
        reranker: the score table, whose manifest names the model.
        otherwise: what orders the candidates of other prompts.
    """

    def __init__(
        self,
        name: str,
        corpus: Corpus,
        questions: Mapping[str, str],
        reranker: ReplayReranker,
        otherwise: BaseRerankStage,
    ) -> None:
        self._name, self._corpus, self._otherwise = name, corpus, otherwise
        self._questions = {_plain(text): query_id for text, query_id in questions.items()}
        self._recorded, self._model = TopRerankStage(reranker), reranker.table.manifest.model

    @classmethod
    def of(cls, folder: Path, otherwise: BaseRerankStage) -> BaseRerankStage:
        """The stage of a collection in BEIR's layout with one score table, if its manifest says that these very
        documents were scored; ``otherwise`` itself if not.

        Raises:
            DatasetError, ScoreTableError: if a file of the collection is malformed.
        """
        tables = sorted((folder / "scores").glob("*.parquet"))
        if len(tables) != 1 or not (folder / QUESTIONS).is_file() or not (folder / COLLECTION).is_file():
            return otherwise
        reranker = ReplayReranker(str(tables[0]))
        records = (row for _, row in read_records(folder / COLLECTION, _DOCUMENTS))
        corpus = Corpus(Document(id=str(doc_id), title=title or "", text=text) for doc_id, text, title in records)
        if corpus.digest != reranker.table.manifest.text_hash:
            return otherwise
        questions = {text: str(query_id) for _, (query_id, text) in read_records(folder / QUESTIONS, _QUERIES)}
        return cls(folder.name, corpus, questions, reranker, otherwise)

    @property
    def label(self) -> str:
        return f"recorded scores of {self._model} for this question of {self._name!r}"

    def query_of(self, body: Mapping[str, str]) -> str:
        query = normalized_query(body)
        return query if _plain(query) in self._questions else self._otherwise.query_of(body)

    def order(
        self, query: str, candidates: Sequence[ScoredDocument], meter: CostMeter, query_id: str | None = None
    ) -> Reranked:
        known = self._questions.get(_plain(query))
        if known is not None and all(self._is_whole(candidate.id) for candidate in candidates):
            return DocumentRerankStage(self._recorded, self._corpus, known).order(query, candidates, meter)
        outcome = self._otherwise.order(query, candidates, meter, query_id)
        told = f"{self._otherwise.label} ({self._name!r} has no recorded scores for this prompt)"
        return replace(outcome, details={**outcome.details, "reranker": told})

    def _is_whole(self, chunk_id: str) -> bool:
        return document_of(chunk_id) in self._corpus and chunk_id.endswith("#0")


def _plain(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))
