"""Documents and turns as a person gives them: folders, collections in BEIR's layout, a written conversation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import ragtune.data
from ragtune.core.errors import ConfigError, DatasetError
from ragtune.superprompt.super_prompt import Turn

MARKDOWN = (".md", ".markdown")
SUFFIXES = (*MARKDOWN, ".txt", ".text", ".rst")
COLLECTION = "corpus.jsonl"

Documents = Mapping[str, str]
"""Markdown or plain text by document name; the name's suffix tells which."""

_START = re.compile(r"[ \t]*(user|assistant)[ \t]*:[ \t]?(.*)", re.IGNORECASE | re.DOTALL)
_ALLOWED = "write 'User: ...' and 'Assistant: ...', each on a new line"


class _Passage(BaseModel):
    doc_id: str = Field(alias="_id", min_length=1)
    title: str | None = None
    text: str | None = None

    model_config = ConfigDict(strict=True)

    @property
    def content(self) -> str:
        text, title = self.text or "", self.title or ""
        return f"{title}{' ' if title.endswith(('.', '!', '?', ':')) else ': '}{text}" if title else text


def demo_folder() -> Path:
    """Return the folder of the collection that ships with the package."""
    return Path(ragtune.data.__file__).with_name("demo")


def read_folder(folder: str | Path) -> Documents:
    """The passages of a folder's ``corpus.jsonl``, else of all Markdown and text files below it; or of one file."""
    root = Path(folder).expanduser()
    if root.is_file() and root.suffix.lower() in SUFFIXES:
        return {root.name: read_file(root, root.name)}
    if not root.is_dir():
        raise DatasetError(f"corpus folder {str(folder)!r}: there is no such folder")
    if (root / COLLECTION).is_file():
        return _passages(root / COLLECTION)
    files = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if _is_document(path, root)}
    if not files:
        allowed = f"allowed are files named {', '.join(SUFFIXES)}, or a {COLLECTION}"
        raise DatasetError(f"corpus folder {str(folder)!r} holds no document: {allowed}")
    return {name: read_file(files[name], name) for name in sorted(files)}


def read_file(path: Path, name: str) -> str:
    """Return the text of a file, which messages call ``name``."""
    try:
        return decode(name, path.read_bytes())
    except OSError as error:
        raise DatasetError(f"{name} cannot be read ({error.strerror or error})") from error


def decode(name: str, data: bytes) -> str:
    """Return the text of a file's bytes."""
    if b"\0" in data:
        raise DatasetError(f"{name}: this is a binary file: allowed is Markdown or plain text")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        found = f"byte 0x{data[error.start]:02x} at position {error.start}"
        raise DatasetError(f"{name}: not UTF-8 ({found}): save it as UTF-8") from None
    if not text.strip():
        raise DatasetError(f"{name}: it is empty")
    return text


def parse_conversation(text: str) -> list[Turn]:
    """Return the turns, oldest first. A turn begins with a line ``User: ...`` or ``Assistant: ...``."""
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        start = _START.fullmatch(line)
        if start:
            rows.append({"role": start[1].lower(), "content": start[2]})
        elif rows:
            rows[-1]["content"] += f"\n{line}"
        elif line.strip():
            raise ConfigError(f"conversation, line {number}: it has no speaker: {_ALLOWED}")
    turns = [Turn(role=row["role"], content=row["content"].strip()) for row in rows]
    if empty := [number for number, turn in enumerate(turns, start=1) if not turn.content]:
        raise ConfigError(f"conversation, turn {empty[0]}: it is empty: {_ALLOWED}")
    return turns


def _is_document(path: Path, root: Path) -> bool:
    is_hidden = any(part.startswith(".") for part in path.relative_to(root).parts)
    return not is_hidden and path.suffix.lower() in SUFFIXES and path.is_file()


def _passages(file: Path) -> dict[str, str]:
    texts: dict[str, str] = {}
    # Lines end with \n only: str.splitlines would split at characters that JSON allows inside a text.
    for number, line in enumerate(read_file(file, file.name).split("\n"), start=1):
        if not line.strip():
            continue
        place = f"{file.name}:{number}"
        try:
            passage = _Passage.model_validate_json(line)
        except ValidationError:
            raise DatasetError(f"{place}: expected a JSON object with strings _id, title and text") from None
        if passage.doc_id in texts:
            raise DatasetError(f"{place}: document id {passage.doc_id!r} comes twice: ids must be unique")
        texts[passage.doc_id] = passage.content
    return texts
