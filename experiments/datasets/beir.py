"""BEIR folders: corpus.jsonl, queries.jsonl, qrels/<split>.tsv (Thakur et al., NeurIPS 2021)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments.datasets.dataset import Dataset, DatasetLoader, add_judgment, assemble, require_id, require_text
from ragtune.core.arguments import check_count
from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted
from ragtune.data.corpus import Corpus, Document
from ragtune.data.textfile import read_json, read_lines


class BeirDataset(DatasetLoader):
    """A collection in BEIR's layout; each of its files may be gzipped (``corpus.jsonl.gz``).

    Queries that only other splits judge are left out; queries that no split judges are replayed but not measured.

    Args:
        path: the folder.
        split: name of the judgments file, e.g. ``test``; None for none, so that every query is replayed and measured by
            its agreement with reranking everything.
        name: identifier; by default the folder's name.
        every: keep every n-th query only, for costly live runs; >= 1.

    Raises:
        DatasetError: if the folder, a file or the split is missing (naming the splits there are).
    """

    def __init__(self, path: str, split: str | None = "test", name: str | None = None, every: int = 1) -> None:
        self.path = Path(path)
        self.every = check_count("dataset.every", every, low=1)
        self.name = "/".join(filter(None, (name or self.path.resolve().name, split)))
        if not self.path.is_dir():
            raise DatasetError(f"dataset folder {str(path)!r} does not exist")
        self._corpus, self._queries_file = self._find("corpus.jsonl"), self._find("queries.jsonl")
        splits = {
            file.name.removesuffix(".gz").removesuffix(".tsv"): file
            for pattern in ("*.tsv.gz", "*.tsv")  # where there are both, the plain one
            for file in sorted((self.path / "qrels").glob(pattern))
        }
        if split is None:
            splits = {}
        elif split not in splits:
            raise DatasetError(
                f"dataset {str(path)!r} has no split {split!r}: allowed are {', '.join([*sorted(splits), 'null'])} "
                "(null: agreement with reranking everything is measured instead)"
            )
        self._judgments = splits.pop(split) if split is not None else None
        self._other_judgments = [splits[other] for other in sorted(splits)]

    def _find(self, name: str) -> Path:
        for file in (self.path / name, self.path / f"{name}.gz"):
            if file.is_file():
                return file
        raise DatasetError(f"dataset folder {str(self.path)!r} has no {name}")

    def files(self) -> list[Path]:
        judgments = [] if self._judgments is None else [self._judgments]
        return [self._corpus, self._queries_file, *judgments, *self._other_judgments]

    def load(self) -> Dataset:
        corpus = Corpus(self._documents())
        if self._judgments is None:
            return assemble(self.name, corpus, self._queries(), None).every(self.every)
        qrels = _qrels(self._judgments)
        judged_elsewhere = {query_id for file in self._other_judgments for query_id in _qrels(file)}
        queries = {
            query_id: text
            for query_id, text in self._queries().items()
            if query_id in qrels or query_id not in judged_elsewhere
        }
        return assemble(self.name, corpus, queries, qrels).every(self.every)

    def _documents(self) -> Iterator[Document]:
        file = self._corpus
        first_seen: dict[str, int] = {}
        for number, row in _json_lines(file):
            doc_id = _id(row, file, number)
            if first_seen.setdefault(doc_id, number) != number:
                raise DatasetError(
                    f"{file}:{number}: duplicate document id {quoted(doc_id)}, first on line {first_seen[doc_id]}"
                )
            yield Document.model_construct(
                id=doc_id, text=_text(row, "text", file, number, ""), title=_text(row, "title", file, number, "")
            )
        if not first_seen:
            raise DatasetError(f"{file}: the corpus is empty: at least one document is needed")

    def _queries(self) -> dict[str, str]:
        file = self._queries_file
        queries: dict[str, str] = {}
        for number, row in _json_lines(file):
            query_id = _id(row, file, number)
            if query_id in queries:
                raise DatasetError(f"{file}:{number}: duplicate query id {quoted(query_id)}")
            queries[query_id] = _text(row, "text", file, number)
        return queries


def _qrels(file: Path) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    for number, line in read_lines(file):
        fields = line.split("\t")
        if number == 1 and fields[-1] == "score":
            continue
        try:
            query_id, doc_id, text = fields
            grade = int(text)
        except ValueError:
            raise DatasetError(
                f"{file}:{number}: malformed line {quoted(line.strip())}: expected query-id, corpus-id and an integer "
                "score, separated by tabs"
            ) from None
        add_judgment(qrels, query_id, doc_id, grade, f"{file}:{number}: ")
    return qrels


def _json_lines(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in read_lines(file):
        try:
            row = read_json(line)
        except ValueError as error:
            raise DatasetError(f"{file}:{number}: malformed JSON: {error}") from None
        if not isinstance(row, dict):
            raise DatasetError(f"{file}:{number}: expected a JSON object, found {type(row).__name__}")
        yield number, row


def _id(row: dict[str, Any], file: Path, number: int) -> str:
    return require_id(_text(row, "_id", file, number), f"{file}:{number}: '_id' is")


def _text(row: dict[str, Any], key: str, file: Path, number: int, default: str | None = None) -> str:
    value = row.get(key)
    value = default if value is None else value
    if not isinstance(value, str):
        raise DatasetError(f"{file}:{number}: {key!r} is {quoted(value)}: allowed is a string")
    if default is None and not value:
        raise DatasetError(f"{file}:{number}: {key!r} is '': it must not be empty")
    return require_text(value, f"{file}:{number}: {key!r} is")
