"""Documents and turns as a person gives them: folders, collections in BEIR's layout, a written conversation."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ragtune.data
from ragtune.canonical.sources import DocumentFiles
from ragtune.canonical.types import SourceDocument
from ragtune.core.errors import ConfigError, DatasetError
from ragtune.data.corpus import Document
from ragtune.superprompt.super_prompt import Turn

SUFFIXES = (".md", ".markdown", ".txt", ".text", ".rst")
"""Files that a person may give one by one."""

Documents = Mapping[str, str]
"""Markdown or plain text by document name; the name's suffix tells which."""

_log = logging.getLogger(__name__)
_START = re.compile(r"[ \t]*(user|assistant)[ \t]*:[ \t]?(.*)", re.IGNORECASE | re.DOTALL)
_ALLOWED = "write 'User: ...' and 'Assistant: ...', each on a new line"


def demo_folder() -> Path:
    """Return the folder of the collection that ships with the package."""
    return Path(ragtune.data.__file__).with_name("demo")


def read_folder(folder: str | Path, as_ingested: bool = False) -> Documents:
    """Texts of :class:`DocumentFiles` by their path below the folder, or as ingested; warns of skipped ones."""
    root = Path(folder).expanduser()
    files = DocumentFiles([root], _passage)
    above = "" if as_ingested else f"{root.resolve().name}/"
    texts = {document.doc_id.removeprefix(above): _text(document) for document in files}
    for place, reason in files.skipped.items():
        _log.warning("skipped: %s: %s", place, reason)
    if not texts:
        first = next((f": skipped {place!r}: {reason!r}" for place, reason in files.skipped.items()), "")
        more = f" and {len(files.skipped) - 1} more" if len(files.skipped) > 1 else ""
        raise DatasetError(f"{str(folder)!r} holds no document that can be read{first}{more}")
    return texts


def _passage(record: Document) -> SourceDocument:
    title = record.title
    head = f"{title}{' ' if title.endswith(('.', '!', '?', ':')) else ': '}" if title else ""
    return SourceDocument(doc_id=record.id, content=f"{head}{record.text}")


def _text(document: SourceDocument) -> str:
    content = document.content
    return content if isinstance(content, str) else "\n\n".join(segment.text for segment in content)


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
