"""Documents that a person points to: a folder, or a collection in BEIR's layout. Text only, UTF-8 only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ragtune.data
from ragtune.core.errors import DatasetError

MARKDOWN = (".md", ".markdown")
TEXT = (".txt", ".text")
SUFFIXES = (*MARKDOWN, *TEXT)
COLLECTION = "corpus.jsonl"


@dataclass(frozen=True)
class DocumentSet:
    """Documents before they are chunked.

    Attributes:
        label: name of the set for people.
        texts: Markdown or plain text by document name; the suffix of the name says which.
        collection: folder of the collection in BEIR's layout that they are of; None for other documents.
    """

    label: str
    texts: Mapping[str, str]
    collection: Path | None = None

    def __len__(self) -> int:
        return len(self.texts)


def demo_folder() -> Path:
    """The collection that ships with the package."""
    return Path(ragtune.data.__file__).with_name("demo")


def read_folder(folder: str | Path) -> DocumentSet:
    """The passages of a folder's ``corpus.jsonl``, or where there is none all Markdown and text files below it.

    Hidden files are left out; names are paths below the folder, in their order. One such file is a set by itself.

    Raises:
        DatasetError: if there is no such folder, no document in it, or one that is not UTF-8 text.
    """
    root = Path(folder).expanduser()
    if root.is_file() and root.suffix.lower() in SUFFIXES:
        return DocumentSet(root.name, {root.name: decode(root.name, _bytes_of(root))})
    if not root.is_dir():
        raise DatasetError(f"corpus folder {str(folder)!r}: there is no such folder")
    if (root / COLLECTION).is_file():
        return DocumentSet(root.resolve().name, _passages(root / COLLECTION), root)
    files = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if _is_document(path, root)}
    if not files:
        allowed = f"allowed are files named {', '.join(SUFFIXES)}, or a {COLLECTION}"
        raise DatasetError(f"corpus folder {str(folder)!r} holds no document: {allowed}")
    return DocumentSet(root.name, {name: decode(name, _bytes_of(files[name])) for name in sorted(files)})


def decode(name: str, data: bytes) -> str:
    """The text of a file.

    Raises:
        DatasetError: if the file is binary, not UTF-8, or empty.
    """
    if b"\0" in data:
        raise DatasetError(f"{name}: this is a binary file: allowed is Markdown or plain text")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        found = f"byte 0x{data[error.start]:02x} at position {error.start}"
        raise DatasetError(f"{name}: not UTF-8 ({found}): save it as UTF-8") from None
    if not text.strip():
        raise DatasetError(f"{name}: the file is empty")
    return text


def _is_document(path: Path, root: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(root).parts)
    return not hidden and path.suffix.lower() in SUFFIXES and path.is_file()


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DatasetError(f"document {str(path)!r} cannot be read ({error.strerror or error})") from error


def _passages(file: Path) -> dict[str, str]:
    texts: dict[str, str] = {}
    # A line is what ends with \n: str.splitlines would split at characters that JSON allows inside a text.
    for number, line in enumerate(decode(file.name, _bytes_of(file)).split("\n"), start=1):
        if not line.strip():
            continue
        doc_id, text = _passage(line, f"{file.name}:{number}")
        if doc_id in texts:
            raise DatasetError(f"{file.name}:{number}: document id {doc_id!r} comes twice: ids must be unique")
        texts[doc_id] = text
    return texts


def _passage(line: str, place: str) -> tuple[str, str]:
    """Id and text, the title in front of it as a person would write it."""
    try:
        row: Any = json.loads(line)
        doc_id, title, text = row["_id"], row.get("title") or "", row.get("text") or ""
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise DatasetError(f"{place}: expected a JSON object with _id, title and text") from None
    if not all(isinstance(value, str) for value in (doc_id, title, text)) or not doc_id:
        raise DatasetError(f"{place}: _id, title and text must be strings, _id not empty")
    between = " " if title.endswith((".", "!", "?", ":")) else ": "
    return doc_id, f"{title}{between}{text}" if title else text
