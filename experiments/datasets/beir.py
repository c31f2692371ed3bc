"""BEIR folders: corpus.jsonl, queries.jsonl, qrels/<split>.tsv (Thakur et al., NeurIPS 2021)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments.datasets.dataset import Dataset, DatasetLoader, assemble
from ragtune.core.arguments import check_count
from ragtune.core.corpus import Corpus, Document
from ragtune.core.errors import DatasetError


class BeirDataset(DatasetLoader):
    """A collection in BEIR's layout.

    Queries that only other splits judge are left out; queries that no split judges are replayed but not measured.

    Args:
        path: the folder.
        split: name of the judgments file, e.g. ``test``.
        name: identifier; by default the folder's name.
        every: keep every n-th query only, for costly live runs; >= 1.

    Raises:
        DatasetError: if the folder, a file or the split is missing (naming the splits there are).
    """

    def __init__(self, path: str, split: str = "test", name: str | None = None, every: int = 1) -> None:
        self.path = Path(path)
        self.split = split
        self.every = check_count("dataset.every", every, low=1)
        self.name = f"{name or self.path.resolve().name}/{split}"
        if not self.path.is_dir():
            raise DatasetError(f"dataset folder {str(path)!r} does not exist")
        for file in ("corpus.jsonl", "queries.jsonl"):
            if not (self.path / file).is_file():
                raise DatasetError(f"dataset folder {str(path)!r} has no {file}")
        splits = sorted(p.stem for p in (self.path / "qrels").glob("*.tsv"))
        if split not in splits:
            raise DatasetError(
                f"dataset {str(path)!r} has no split {split!r}: allowed are {', '.join(splits) or 'none'}"
            )
        self._other_splits = [s for s in splits if s != split]

    def load(self) -> Dataset:
        corpus = Corpus(self._documents())
        qrels = self._qrels(self.split)
        judged_elsewhere = {query_id for split in self._other_splits for query_id in self._qrels(split)}
        queries = {
            query_id: text
            for query_id, text in self._queries().items()
            if query_id in qrels or query_id not in judged_elsewhere
        }
        return assemble(self.name, corpus, queries, qrels).every(self.every)

    def _documents(self) -> Iterator[Document]:
        file = self.path / "corpus.jsonl"
        first_seen: dict[str, int] = {}
        for number, row in _json_lines(file):
            doc_id = _text(row, "_id", file, number)
            if first_seen.setdefault(doc_id, number) != number:
                raise DatasetError(
                    f"{file}:{number}: duplicate document id {doc_id!r}, first on line {first_seen[doc_id]}"
                )
            yield Document.model_construct(
                id=doc_id, text=_text(row, "text", file, number, ""), title=_text(row, "title", file, number, "")
            )
        if not first_seen:
            raise DatasetError(f"{file}: the corpus is empty: at least one document is needed")

    def _queries(self) -> dict[str, str]:
        file = self.path / "queries.jsonl"
        queries: dict[str, str] = {}
        for number, row in _json_lines(file):
            query_id = _text(row, "_id", file, number)
            if query_id in queries:
                raise DatasetError(f"{file}:{number}: duplicate query id {query_id!r}")
            queries[query_id] = _text(row, "text", file, number)
        return queries

    def _qrels(self, split: str) -> dict[str, dict[str, int]]:
        file = self.path / "qrels" / f"{split}.tsv"
        qrels: dict[str, dict[str, int]] = {}
        for number, line in enumerate(_lines(file), start=1):
            fields = line.rstrip("\n").split("\t")
            if not line.strip() or (number == 1 and fields[-1] == "score"):
                continue
            try:
                query_id, doc_id, grade = fields
                qrels.setdefault(query_id, {})[doc_id] = int(grade)
            except ValueError:
                raise DatasetError(
                    f"{file}:{number}: malformed line {line.strip()!r}: expected query-id, corpus-id and an integer "
                    "score, separated by tabs"
                ) from None
        return qrels


def _lines(file: Path) -> Iterator[str]:
    try:
        with file.open(encoding="utf-8") as lines:
            yield from lines
    except UnicodeDecodeError as error:
        raise DatasetError(f"{file}: not UTF-8: {error}") from None


def _json_lines(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(_lines(file), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DatasetError(f"{file}:{number}: malformed JSON: {error}") from None
        if not isinstance(row, dict):
            raise DatasetError(f"{file}:{number}: expected a JSON object, found {type(row).__name__}")
        yield number, row


def _text(row: dict[str, Any], key: str, file: Path, number: int, default: str | None = None) -> str:
    value = row.get(key)
    value = default if value is None else value
    if not isinstance(value, str):
        raise DatasetError(f"{file}:{number}: {key!r} is {value!r}: allowed is a string")
    if default is None and not value:
        raise DatasetError(f"{file}:{number}: {key!r} is '': it must not be empty")
    return value
