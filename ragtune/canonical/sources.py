"""Documents of folders and files as people have them: Markdown, text, HTML, PDF, JSON lines, and BEIR's corpora."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ragtune.canonical.normalization import normalize
from ragtune.canonical.store.rows import check_doc_id
from ragtune.canonical.types import Content, Segment, SourceDocument
from ragtune.core.errors import DatasetError, InputError, MissingExtraError
from ragtune.data.corpus import Document
from ragtune.data.files.textfile import id_of, read_json, read_lines

MARKDOWN = (".md", ".markdown", ".html", ".htm", ".xhtml")
"""Files whose headings are found; the text of HTML becomes Markdown."""

TEXT = (".txt", ".text", ".rst", ".adoc")
RECORDS = (".jsonl", ".ndjson", ".jsonl.gz")
CORPUS = ("corpus.jsonl", "corpus.jsonl.gz")
SUFFIXES = (*MARKDOWN, *TEXT, ".pdf", *RECORDS)

_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f]")
_HIGH = re.compile(rb"[\xa0-\xff]")
_LATIN_SHARE = 0.1  # Cyrillic, Greek and CJK encodings have more bytes above 127
_NOT_CONTENT = "script, style, nav, header, footer, template, a.headerlink"
_IDS, _TEXTS = ("_id", "id", "doc_id"), ("text", "content", "contents", "body")


class Sources:
    """The documents of folders and files, in the order of their ids; what cannot be read is skipped, with its reason.

    A document's id is the folder's name and the path below it; ``#`` and the record's id follow for JSON lines. A BEIR
    corpus (a folder with ``corpus.jsonl``) keeps its own ids. Text that is not UTF-8 is read as Latin-1 if it has no
    control characters and at most a tenth of its bytes are above 127, which other encodings exceed.

    Args:
        paths: folders and files. Hidden files are left out, and files of other forms.

    Attributes:
        skipped: reason by file or record, complete after an iteration.
        notes: remarks on documents that were read.
        size: bytes of all files.
        prefixes: beginnings of all ids; None if a corpus has its own ids.

    Raises:
        DatasetError: if a path does not exist, two have the same name, or there is no document of an allowed form.

    Examples:
        >>> import tempfile
        >>> from ragtune.canonical.sources import Sources
        >>> folder = Path(tempfile.mkdtemp(suffix="docs"))
        >>> _ = (folder / "tea.md").write_text("# Tea")
        >>> [document.content for document in Sources([folder])]
        ['# Tea']
    """

    def __init__(self, paths: Sequence[str | Path]) -> None:
        self.skipped: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        self._files: dict[str, Path] = {}
        self._corpora: set[str] = set()
        roots: list[str] = []
        for path in paths:
            root = Path(path).expanduser().resolve()
            if root.name in roots:
                raise DatasetError(f"two sources are named {root.name!r}: allowed are different names")
            roots.append(root.name)
            self._files |= self._found(root, str(path))
        self.size = sum(file.stat().st_size for file in self._files.values())
        self.prefixes = None if self._corpora else tuple(f"{name}/" for name in roots)

    def __iter__(self) -> Iterator[SourceDocument]:
        for name, file in sorted(self._files.items()):
            try:
                if name.endswith(RECORDS):
                    yield from self._records(name, file)
                else:
                    content = self._read(name, file)
                    yield SourceDocument(doc_id=check_doc_id(name), content=content)
            except Exception as error:
                self.skipped[name] = str(getattr(error, "strerror", None) or error) or type(error).__name__

    def _found(self, root: Path, given: str) -> dict[str, Path]:
        if root.is_file():
            return {f"{root.name}/{root.name}" if not root.name.endswith(RECORDS) else f"{root.name}/": root}
        if not root.is_dir():
            raise DatasetError(f"{given!r}: there is no such folder or file")
        if corpus := next((root / name for name in CORPUS if (root / name).is_file()), None):
            self._corpora.add(corpus.name)
            return {corpus.name: corpus}
        below = [(file.relative_to(root), file) for file in root.rglob("*")]
        found = {
            _storable(f"{root.name}/{path.as_posix()}"): file
            for path, file in below
            if file.name.lower().endswith(SUFFIXES) and not any(part.startswith(".") for part in path.parts)
        }
        files = {name: file for name, file in found.items() if file.is_file()}
        if not files:
            raise DatasetError(f"{given!r} holds no document: allowed are files named {', '.join(SUFFIXES)}")
        return files

    def _read(self, name: str, file: Path) -> Content:
        data = file.read_bytes()
        if file.suffix.lower() == ".pdf":
            return _pages(data)
        text = self._text(name, data)
        return _markdown_of(text) if file.suffix.lower() in MARKDOWN[2:] else text

    def _text(self, name: str, data: bytes) -> str:
        if not data.strip():
            raise DatasetError("it is empty")
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return data.decode("utf-16")
        try:
            if b"\0" not in data:
                return data.decode("utf-8-sig")
        except UnicodeDecodeError:
            if not _CONTROL.search(data) and len(_HIGH.findall(data)) <= _LATIN_SHARE * len(data):
                self.notes[name] = "not UTF-8, read as Latin-1"
                return data.decode("latin-1")
            raise DatasetError("not UTF-8, and not Latin-1 beyond doubt: save it as UTF-8") from None
        raise DatasetError("a binary file")

    def _records(self, name: str, file: Path) -> Iterator[SourceDocument]:
        for number, line in read_lines(file):
            place = f"{name.rstrip('/')}:{number}"
            try:
                record = read_json(line)
                own = id_of(next((record[key] for key in _IDS if key in record), number), place, "_id")
                doc_id = check_doc_id(own if name in self._corpora else f"{name}#{own}")
                text = next(record[key] for key in _TEXTS if isinstance(record.get(key), str))
                found = source_of(Document(id=doc_id, title=str(record.get("title") or ""), text=text))
            except (ValueError, TypeError, AttributeError, StopIteration, InputError):
                self.skipped[place] = f"no JSON object with a text ({', '.join(_TEXTS)})"
                continue
            yield found


def source_of(document: Document) -> SourceDocument:
    """A document of a dataset as a source: title and text are its content, and the title is metadata."""
    title = normalize(document.title).text
    return SourceDocument(doc_id=document.id, content=document.content, metadata={"title": title} if title else {})


def _storable(name: str) -> str:
    return name.encode(errors="surrogateescape").decode(errors="replace")


def _pages(data: bytes) -> tuple[Segment, ...]:
    try:
        from pypdf import PdfReader
    except ImportError as error:
        raise MissingExtraError("a PDF file", "documents") from error
    logging.getLogger("pypdf").setLevel(logging.ERROR)  # what it repairs is no news
    texts = [page.extract_text() for page in PdfReader(io.BytesIO(data)).pages]
    if not any(text.strip() for text in texts):
        raise DatasetError("a PDF without text: it may be scanned")
    return tuple(Segment(text=text, metadata={"page": page}) for page, text in enumerate(texts, start=1))


def _markdown_of(html: str) -> str:
    try:
        from bs4 import BeautifulSoup
        from markdownify import MarkdownConverter
    except ImportError as error:
        raise MissingExtraError("an HTML file", "documents") from error
    page = BeautifulSoup(html, "html.parser")
    for part in page.select(_NOT_CONTENT):
        part.decompose()
    converter = MarkdownConverter(heading_style="ATX", strip=["a", "img"], escape_asterisks=False, escape_misc=False)
    return str(converter.convert_soup(page.main or page.body or page)).strip()
