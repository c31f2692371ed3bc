"""A collection in a folder in BEIR's layout (Thakur et al., NeurIPS 2021), with parts of any form, TREC topics too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from html import unescape
from pathlib import Path
from typing import Any

from experiments.datasets.dataset import (
    Dataset,
    DatasetLoader,
    Qrels,
    add_judgment,
    assemble,
    chosen_fields,
    field_names,
)
from ragtune.core.arguments import check_count, did_you_mean
from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted
from ragtune.data.caches.diskcache import sha256_of
from ragtune.data.corpus import EMPTY, Corpus, Document, DuplicateIdError
from ragtune.data.files.records import DOC_ID, QUERY_ID, Schema, read_records, record_files, text_form
from ragtune.data.files.textfile import id_of, read_raw_lines, require_id, require_text
from ragtune.data.runs.runfile import source_name
from ragtune.data.storedcorpus import stored as stored_corpus

_QRELS_TEXT = (".tsv", ".txt", ".qrels", ".jsonl", ".csv")
QRELS_FORMS = (*(f"{form}{gz}" for form in _QRELS_TEXT for gz in ("", ".gz")), ".parquet")
"""How the names of files may end, in order of preference where a split has several."""

_SCHEMA = Schema(
    {
        "query-id": ("query-id", *QUERY_ID),
        "corpus-id": ("corpus-id", *DOC_ID),
        "score": ("score", "label", "relevance", "grade", "rel"),
        "iteration": (),  # TREC's second column, which has a name in no header
    },
    frozenset({"query-id", "corpus-id", "score"}),
    layouts=(("query-id", "corpus-id", "score"), ("query-id", "iteration", "corpus-id", "score")),
    is_spaced=True,
)
_ITERATIONS = frozenset({"0", "Q0", "1"})
_PIECE = re.compile(r"-\d{5}-of-\d{5}$")
_WHOLE = re.compile(r"[+-]?\d+(\.0*)?")


def _judgment_files(folder: Path, qrels: str | None, split: str | None) -> tuple[Path | None, list[Path]]:
    if split is None:
        return None, []
    if qrels is not None and not Path(qrels).is_dir():
        if not Path(qrels).is_file():
            raise DatasetError(f"judgments {qrels!r} do not exist")
        return Path(qrels), []
    splits = _splits(folder / "qrels" if qrels is None else Path(qrels))
    if split not in splits:
        raise DatasetError(
            f"dataset {str(folder)!r} has no split {split!r}: allowed are {', '.join([*sorted(splits), 'null'])} "
            f"(null: agreement with reranking everything is measured instead){did_you_mean(split, [*splits])}"
        )
    chosen = splits.pop(split)
    return chosen, [splits[other] for other in sorted(splits)]


def read_qrels(path: Path) -> Qrels:
    """Read grades by query and document."""
    qrels: dict[str, dict[str, int]] = {}
    for where, (query_id, doc_id, grade, iteration) in read_records(path, _SCHEMA):
        if doc_id in _ITERATIONS and iteration is not None and iteration not in _ITERATIONS:
            raise DatasetError(
                f"{where}: the iteration is {quoted(iteration)} and the document {quoted(doc_id)}: they look swapped: "
                "allowed is 'query_id 0 doc_id grade', or a header that names the columns"
            )
        ids = id_of(query_id, where, "query-id"), id_of(doc_id, where, "corpus-id")
        add_judgment(qrels, *ids, _grade(grade, where), f"{where}: ")
    return qrels


def _splits(folder: Path) -> dict[str, Path]:
    """File or folder by the name of the split; of several forms, the first in :data:`QRELS_FORMS`."""
    found = sorted(folder.glob("*"))
    splits = {_PIECE.sub("", file.name): file for file in found if file.is_dir()}
    for form in reversed(QRELS_FORMS):
        for file in found:
            if file.name.endswith(form):
                splits[_PIECE.sub("", file.name.removesuffix(form))] = file
    return splits


def _grade(value: object, where: str) -> int:
    text = str(value)
    with suppress(ValueError):  # too many digits
        if _WHOLE.fullmatch(text):
            return int(text.partition(".")[0])
    raise DatasetError(f"{where}: 'score' is {quoted(value)}: allowed is a whole number")


FORMS = (".jsonl", ".jsonl.gz", ".parquet", ".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".xml", "")
"""How the names of corpus and queries may end, in order of preference; the last is a folder."""

STORED_FROM = 2**20
"""Bytes of files from which on documents are copied to the cache and mapped from there."""

_TEXT = ("text", "contents", "content", "body", "passage")
_QUERY_TEXT = ("text", "query", "question", "title")

_DOCUMENTS = Schema(
    {"_id": ("_id", *DOC_ID, "id"), "title": ("title",), "text": _TEXT},
    frozenset({"_id", "text"}),
    layouts=(("_id", "text"), ("_id", "url", "title", "text")),  # MS MARCO's passages and documents
    is_text=True,
)


class BeirDataset(DatasetLoader):
    """A collection of documents, queries and judgments, in files whose content decides their form."""

    def __init__(
        self,
        path: str,
        split: str | None = "test",
        name: str | None = None,
        every: int = 1,
        corpus: str | None = None,
        queries: str | None = None,
        qrels: str | None = None,
        query_fields: str | Sequence[str] | None = None,
    ) -> None:
        self.path = Path(path)
        self.every = check_count("dataset.every", every, low=1)
        if not self.path.is_dir():
            raise DatasetError(f"dataset folder {str(path)!r} does not exist")
        self._fields = field_names(query_fields)
        self._corpus = self._find("corpus") if corpus is None else Path(corpus)
        self._queries_file = self._find("queries") if queries is None else Path(queries)
        self._judgments, self._other_judgments = _judgment_files(self.path, qrels, split)
        judged = source_name(Path(qrels)) if qrels and split and Path(qrels).is_file() else split
        self.name = "/".join(filter(None, (name or self.path.resolve().name, judged)))

    def _find(self, part: str) -> Path:
        for file in (self.path / f"{part}{form}" for form in FORMS):
            if file.is_file() or (file.is_dir() and file.name == part):
                return file
        raise DatasetError(
            f"dataset folder {str(self.path)!r} has no {part}.jsonl: {part} may end in {', '.join(FORMS[:-1])} or be a "
            f"folder; dataset.{part}=FILE names another one"
        )

    def files(self) -> list[Path]:
        parts = [self._corpus, self._queries_file, *filter(None, [self._judgments]), *self._other_judgments]
        return [file for part in parts for file in record_files(part)]

    def load(self) -> Dataset:
        corpus = self._read()
        if self._judgments is None:
            return assemble(self.name, corpus, self._queries(), None).every(self.every)
        qrels = read_qrels(self._judgments)
        rows = (row for file in self._other_judgments for row in read_records(file, _SCHEMA))
        others = {id_of(query_id, where, "query-id") for where, (query_id, *_) in rows} - qrels.keys()
        queries = {query_id: text for query_id, text in self._queries().items() if query_id not in others}
        return assemble(self.name, corpus, queries, qrels).every(self.every)

    def _read(self) -> Corpus:
        files = record_files(self._corpus)
        try:
            if sum(file.stat().st_size for file in files) >= STORED_FROM:
                return stored_corpus(self._documents, " ".join(map(sha256_of, files)))
            return Corpus(self._documents())
        except DuplicateIdError as error:
            raise DatasetError(f"{self._corpus}: {error}") from None

    def _documents(self) -> Iterator[Document]:
        where = ""
        for where, (doc_id, title, text) in read_records(self._corpus, _DOCUMENTS):
            yield Document(
                id=_id(doc_id, where), text=_text(text, "text", where, ""), title=_text(title, "title", where, "")
            )
        if not where:
            raise DatasetError(f"{self._corpus}: {EMPTY}")

    def _queries(self) -> dict[str, str]:
        queries: dict[str, str] = {}
        for where, query_id, text in self._asked():
            if query_id in queries:
                raise DatasetError(f"{where}: duplicate query id {quoted(query_id)}")
            queries[query_id] = text
        return queries

    def _asked(self) -> Iterator[tuple[str, str, str]]:
        file = self._queries_file
        if file.is_file() and text_form(file) == "markup":
            for where, number, fields in read_topics(file):
                first = next((name for name in ("title", "query", *fields) if name in fields), "title")
                wanted = self._fields or [first]
                text = chosen_fields(fields, wanted, f"{where}: topic {number} has")
                query_id = require_id(number, f"{where}: id")
                yield where, query_id, require_text(text, f"{where}: query {query_id!r} is")
            return
        wanted = self._fields or ["text"]
        names = {name: _QUERY_TEXT if name == "text" else (name,) for name in wanted}
        ids = ("_id", *QUERY_ID, "id")
        schema = Schema({"_id": ids, **names}, frozenset(["_id", *names]), (("_id", "text"),), is_text=True)
        for where, (query_id, *texts) in read_records(file, schema):
            found = _id(query_id, where)
            text = " ".join(_text(text, name, where) for text, name in zip(texts, wanted, strict=True))
            yield where, found, require_text(text, f"{where}: query {found!r} is")


def _id(value: Any, where: str) -> str:
    found = id_of(value, where, "_id")
    if not found:
        raise DatasetError(f"{where}: '_id' is '': it must not be empty")
    return require_id(found, f"{where}: '_id' is")


def _text(value: Any, name: str, where: str, default: str | None = None) -> str:
    value = default if value is None else value
    if not isinstance(value, str):
        raise DatasetError(f"{where}: {name!r} is {quoted(value)}: allowed is a string")
    if default is None and not value:
        raise DatasetError(f"{where}: {name!r} is '': it must not be empty")
    return require_text(value, f"{where}: {name!r} is")


_TOPICS = ("top", "topic")
_IDS = ("num", "number", "identifier", "id", "qid")
_OURS = {"desc": "description", "narr": "narrative"}

_INLINE = frozenset(["a", "abbr", "b", "big", "cite", "code", "em", "font", "i", "mark", "small", "span", "strong"])
_INLINE |= {"sub", "sup", "u"}
_BREAKS = frozenset(["br", "div", "li", "ol", "p", "ul"])
"""Tags of HTML within a field's text, which begin no field; words end at breaks."""

_TAG = re.compile(r"<(/?)([a-z][\w.-]*)((?:\s[^<>]*)?)/?>", re.IGNORECASE)
_ATTRIBUTE = re.compile(rf"\b({'|'.join(_IDS)})\s*=\s*[\"']?([^\"'<>\s]+)", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?-->|<!\[CDATA\[|\]\]>", re.DOTALL)
_LABEL = re.compile(r"(number|topic|description|narrative)\s*:\s*", re.IGNORECASE)
"""Words that introduce a field in TREC's older files: ``<num> Number: 301``."""


def read_topics(file: Path) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield each topic's place (``FILE:LINE``), id, and fields with text; of repeated fields the first counts."""
    begun, field, texts, found = "", None, dict[str, str](), False
    for line, is_end, tag, attributes, text in _tags(file):
        if tag in _TOPICS and is_end:
            if begun:
                yield begun, *_topic(begun, texts)
            begun, field, texts, found = "", None, {}, True
        elif tag in _TOPICS:
            if begun:
                break
            begun, field = f"{file}:{line}", None
            texts = {name.lower(): value for name, value in _ATTRIBUTE.findall(attributes)}
        else:
            field = _field_after(tag, is_end, field, texts)
        if field is not None:
            texts[field] = texts.get(field, "") + (f" {text}" if tag in _BREAKS else text)
    if begun:
        raise DatasetError(f"{begun}: this topic is not ended by </top> or </topic>")
    if not found:
        raise DatasetError(f"{file}: no topics: expected <top> with <num> and <title>, or <topic number=...>")


def _field_after(tag: str, is_end: bool, field: str | None, texts: Mapping[str, str]) -> str | None:
    if tag in _INLINE or tag in _BREAKS:
        return field
    name = _OURS.get(tag, tag)
    if is_end:
        return None if name == field else field
    return None if name in texts else name


def _tags(file: Path) -> Iterator[tuple[int, bool, str, str, str]]:
    """Line, whether it is an end tag, name and attributes of each tag, and the text that follows it."""
    content = "".join(line for _, line in read_raw_lines(file))
    content = _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), content)
    tags = list(_TAG.finditer(content))
    line, at = 1, 0
    ends = [*(tag.start() for tag in tags), len(content)][1:]
    for tag, after in zip(tags, ends, strict=True):
        line, at = line + content.count("\n", at, tag.start()), tag.start()
        yield line, bool(tag[1]), tag[2].lower(), tag[3], unescape(content[tag.end() : after])


def _topic(begun: str, texts: dict[str, str]) -> tuple[str, dict[str, str]]:
    plain = {name: _plain(name, text) for name, text in texts.items()}
    found = next((plain[name] for name in _IDS if plain.get(name)), None)
    if found is None:
        raise DatasetError(f"{begun}: no id: expected {quoted('<num>, <number>, <identifier> or number=')}")
    return found, {name: text for name, text in plain.items() if text and name not in _IDS}


def _plain(name: str, text: str) -> str:
    """The text on one line, without the word that introduces it."""
    words = " ".join(text.split())
    label = _LABEL.match(words)
    introduces = {"number": _IDS, "topic": ("title",)}
    is_label = label is not None and name in introduces.get(label[1].lower(), (label[1].lower(),))
    return words[label.end() :] if label and is_label else words
