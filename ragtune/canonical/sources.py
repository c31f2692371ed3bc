"""Documents of folders and files as people have them: Markdown, text, HTML, PDF, JSON lines, and BEIR's corpora."""

from __future__ import annotations

import io
import logging
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ragtune.canonical.chunking import HEADINGS, chunk
from ragtune.canonical.normalization import normalize
from ragtune.canonical.policies import ChunkPolicy
from ragtune.canonical.store.rows import check_doc_id
from ragtune.canonical.types import Chunk, Content, Segment, SourceDocument
from ragtune.core.errors import DatasetError, InputError, MissingExtraError
from ragtune.data.corpus import Document
from ragtune.data.files.textfile import id_of, read_json, read_lines

_HTML = (".html", ".htm", ".xhtml")
MARKDOWN = (".md", ".markdown", *_HTML)
"""Files whose headings are found; the text of HTML becomes Markdown."""

_RECORDS = (".jsonl", ".ndjson", ".jsonl.gz")
_CORPUS = ("corpus.jsonl", "corpus.jsonl.gz")
SUFFIXES = (*MARKDOWN, ".txt", ".text", ".rst", ".adoc", ".pdf", *_RECORDS)

_CONTROL, _HIGH = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f]"), re.compile(rb"[\xa0-\xff]")
_LATIN_SHARE = 0.1  # Cyrillic, Greek and CJK encodings have more bytes above 127
_NOT_CONTENT = "script, style, nav, header, footer, template, a.headerlink"
_UNDERLINED = re.compile(r"(?m)^(?=.*\w)(\S.*)\n([=\-~^\"+*#])\2{2,}[ \t]*$")
_IDS, _TEXTS = ("_id", "id", "doc_id"), ("text", "content", "contents", "body")


def source_of(document: Document) -> SourceDocument:
    """A document of a dataset as a source: title and text are its content, and the title is metadata."""
    title = normalize(document.title).text
    return SourceDocument(doc_id=document.id, content=document.content, metadata={"title": title} if title else {})


def chunk_file(document: SourceDocument, markdown: ChunkPolicy, text: ChunkPolicy) -> list[Chunk]:
    """Cut a document by the policy for its name's suffix; every chunk's metadata have the headings that it is under."""
    if document.doc_id.lower().endswith(MARKDOWN):
        return chunk(document, markdown)
    normal = normalize(document.content)
    chunks = chunk(normal, text, doc_id=document.doc_id, tags=document.tags, metadata=document.metadata)
    if headings := _underlined_headings(normal.text):
        for piece in chunks:
            place = bisect_right(headings, piece.start, key=lambda heading: heading[0])
            piece.metadata[HEADINGS] = list(headings[place - 1][1]) if place else []
    return chunks


class DocumentFiles:
    """The documents of folders and files, in the order of their ids; what cannot be read is skipped, with its reason.

    A document's id is the folder's name and the path below it; ``#`` and the record's id follow for JSON lines. A BEIR
    corpus (a folder with ``corpus.jsonl``) keeps its own ids. Text that is not UTF-8 is read as Latin-1 if it has no
    control characters and at most a tenth of its bytes are above 127, which other encodings exceed. Hidden files and
    files of other forms are left out. ``source`` makes a document of a record.

    Attributes:
        skipped: reason by file, record or folder, complete after an iteration.
        notes: remarks on documents that were read.
        size: bytes of all files.
        roots: the given folders and files, by how their ids begin.

    Raises:
        DatasetError: if a path does not exist, two have the same name, or there is no document of an allowed form.

    Examples:
        >>> import tempfile
        >>> from ragtune.canonical.sources import DocumentFiles
        >>> folder = Path(tempfile.mkdtemp(suffix="docs"))
        >>> _ = (folder / "tea.md").write_text("# Tea")
        >>> [document.content for document in DocumentFiles([folder])]
        ['# Tea']
    """

    def __init__(self, paths: Sequence[str | Path], source: Callable[[Document], SourceDocument] = source_of) -> None:
        self.skipped: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        self._source = source
        self._files: dict[str, Path] = {}
        self._corpora: set[str] = set()
        self._unread: set[str] = set()  # how ids begin that may be there still
        roots = [Path(path).expanduser().resolve() for path in paths]
        self.roots = {f"{root.name}/": str(root) for root in roots}
        if len(self.roots) < len(roots):
            raise DatasetError(f"sources {list(map(str, roots))}: allowed are folders and files of different names")
        for root in roots:
            self._files |= self._files_of(root)
        self.size = sum(file.stat().st_size for file in self._files.values())

    def is_gone(self, doc_id: str, prune: bool = False) -> bool:
        """Whether a document that was not read was here before; what was skipped this time may be here still.

        Ids of a corpus do not tell; with ``prune``, all are its own, if all could be read.
        """
        if self._corpora:
            return prune and not self._unread
        return doc_id.startswith(tuple(self.roots)) and not f"{doc_id}#".startswith(tuple(self._unread))

    def __iter__(self) -> Iterator[SourceDocument]:
        seen: set[str] = set()
        for name, file in sorted(self._files.items()):
            try:
                if name.endswith(_RECORDS):
                    yield from self._records(name, file, seen)
                else:
                    yield SourceDocument(doc_id=check_doc_id(name), content=self._content(name, file))
            except Exception as error:  # parsers raise anything on damaged files
                reason = str(getattr(error, "strerror", None) or error) or type(error).__name__
                self._skip(name, reason, f"{name}#")

    def _skip(self, place: str, reason: str, beginning: str) -> None:
        self.skipped[place] = reason
        self._unread.add(beginning)

    def _files_of(self, root: Path) -> dict[str, Path]:
        """Files by the ids of their documents."""
        if root.is_file():
            return {f"{root.name}/{root.name}": root}
        if not root.is_dir():
            raise DatasetError(f"{str(root)!r}: there is no such folder or file")
        if corpus := next((root / name for name in _CORPUS if (root / name).is_file()), None):
            self._corpora.add(f"{root.name}/{corpus.name}")
            return {f"{root.name}/{corpus.name}": corpus}

        def name_of(path: str | Path) -> str:
            return os.fsencode(Path(path).relative_to(root.parent)).decode(errors="backslashreplace")

        def skip(error: OSError) -> None:
            folder = f"{name_of(error.filename)}/"
            self._skip(folder, error.strerror or str(error), folder)

        found: dict[str, Path] = {}
        for folder, folders, names in os.walk(root, onerror=skip):
            folders[:] = [name for name in folders if not name.startswith(".")]
            files = (Path(folder, name) for name in names if not name.startswith("."))
            found |= {name_of(file): file for file in files if file.name.lower().endswith(SUFFIXES) and file.is_file()}
        if not found:
            raise DatasetError(f"{str(root)!r} holds no document: allowed are files named {', '.join(SUFFIXES)}")
        return found

    def _content(self, name: str, file: Path) -> Content:
        data, form = file.read_bytes(), file.suffix.lower()
        if not data.strip():
            raise DatasetError("it is empty")
        if form == ".pdf":
            return _pages(data)
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            text = data.decode("utf-16")
        elif b"\0" in data:
            raise DatasetError("a binary file")
        else:
            text = self._decoded(name, data)
        return _markdown_of(text) if form in _HTML else text

    def _decoded(self, name: str, data: bytes) -> str:
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError:
            if _CONTROL.search(data) or len(_HIGH.findall(data)) > _LATIN_SHARE * len(data):
                raise DatasetError("not UTF-8, and not Latin-1 beyond doubt: save it as UTF-8") from None
        self.notes[name] = "not UTF-8, read as Latin-1"
        return data.decode("latin-1")

    def _records(self, name: str, file: Path, seen: set[str]) -> Iterator[SourceDocument]:
        for number, line in read_lines(file):
            place = f"{name}:{number}"
            try:
                record = read_json(line)
                own = id_of(next((record[key] for key in _IDS if key in record), number), place, "_id")
                doc_id = check_doc_id(own if name in self._corpora else f"{name}#{own}")
                text = next(record[key] for key in _TEXTS if isinstance(record.get(key), str))
                found = self._source(Document(id=doc_id, title=str(record.get("title") or ""), text=text))
            except (ValueError, TypeError, AttributeError, StopIteration, InputError):
                self._skip(place, f"no JSON object with a text ({', '.join(_TEXTS)})", f"{name}#")
                continue
            if doc_id in seen:
                self.skipped[place] = f"the id {doc_id!r} comes twice"
                continue
            seen.add(doc_id)
            yield found


def _underlined_headings(text: str) -> list[tuple[int, list[str]]]:
    """Position of headings that a line of one mark underlines, as in reStructuredText, and the titles down to each."""
    marks: list[str] = []
    path: list[tuple[int, str]] = []
    found = []
    for match in _UNDERLINED.finditer(text):
        if len(match[0]) >= 2 * len(match[1].rstrip()) - 1:
            marks += [match[2]] if match[2] not in marks else []
            level = marks.index(match[2])
            path = [above for above in path if above[0] < level] + [(level, match[1].strip())]
            found.append((match.start(), [title for _, title in path]))
    return found


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
