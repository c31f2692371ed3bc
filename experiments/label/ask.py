"""Ways to ask for labels: keys in the terminal, a page of this machine, rows of a sheet, and a language model."""

from __future__ import annotations

import csv
import json
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from itertools import islice
from pathlib import Path
from textwrap import fill
from threading import Lock
from typing import Any, Literal

from hydra.utils import instantiate
from pydantic import BaseModel

from experiments.config.compose import compose
from experiments.config.progress import Progress
from experiments.label.desk import GRADES, LEGEND, SKIPPED, Desk, Label, Task
from experiments.publish.files import write_text
from ragtune.core.errors import ConfigError, DatasetError, LLMError
from ragtune.core.plain import quoted
from ragtune.core.tokens import token_spans
from ragtune.data.files.textfile import read_raw_lines
from ragtune.llm.client import LLMClient
from ragtune.llm.prompts import PromptLibrary, fence

KEYS = "0-3 grade, s skip, u undo, q quit"
WIDTH = 100
SHOWN = 2000

COLUMNS = ("grade", "query", "title", "text", "query_id", "doc_id")

_FORMULA = ("=", "+", "-", "@", "\t")
"""How a cell begins that a spreadsheet would compute."""


def judge_in_terminal(desk: Desk, most: int | None) -> None:
    """Ask for grades until the person quits, ``most`` labels were given, or nothing is left."""
    given = 0
    sys.stdout.write("\n".join([*LEGEND, ""]))
    keys = _keys()
    with _unbuffered():  # before the first prompt, so that a key which is typed early is not lost
        while (task := desk.next()) is not None and (most is None or given < most):
            _show(desk, task)
            key = next(keys, "q")
            if key == "q":
                break
            given += _act(desk, task, key)
    if task is None:
        sys.stdout.write("Everything that could decide is judged.\n")


def _act(desk: Desk, task: Task, key: str) -> int:
    if key in "0123":
        desk.grade(task, int(key))
        return 1
    if key == "u":
        return -1 if desk.undo() else 0
    if key == "s":
        desk.grade(task, SKIPPED)
    else:
        sys.stdout.write(f"{key!r} is no key here: {KEYS}\n")
    return 0


def _show(desk: Desk, task: Task) -> None:
    text = _line(task.text)
    cut = "" if len(text) <= SHOWN else " [...]"
    lines = [
        "-" * WIDTH,
        desk.verdict().text,
        f"Query {_line(task.query_id)}: {fill(_line(task.query), WIDTH)}",
        f"Document {_line(task.doc_id)}: {_line(task.title)}",
        fill(text[:SHOWN] + cut, WIDTH),
        f"[{KEYS}] ",
    ]
    sys.stdout.write("\n".join(lines))
    sys.stdout.flush()


def _line(text: str) -> str:
    """A text on one line, without characters that would steer the terminal."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _keys() -> Iterator[str]:
    while key := sys.stdin.read(1):
        if sys.stdin.isatty() or not key.isspace():
            sys.stdout.write(f"{key}\n")
            yield key.lower()


@contextmanager
def _unbuffered() -> Iterator[None]:
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def write_sheet(desk: Desk, file: Path, rows: int) -> int:
    """Write the next documents to judge, with an empty grade each, and return how many."""
    tasks = list(islice(desk.tasks(), rows))
    out = StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(COLUMNS)
    for task in tasks:
        texts = (f"'{text}" if text.startswith(_FORMULA) else text for text in (task.query, task.title, task.text))
        table.writerow(["", *texts, task.query_id, task.doc_id])
    write_text(file, out.getvalue())
    return len(tasks)


def read_sheet(desk: Desk, file: Path) -> tuple[int, int]:
    """Take over all grades of a sheet or none; return how many it has, and how many rows have none."""
    graded, empty = {}, 0
    for where, row in _rows(file):
        text = (row["grade"] or "").strip()
        query_id, doc_id = row["query_id"] or "", row["doc_id"] or ""
        if query_id not in desk.dataset.queries or doc_id not in desk.dataset.corpus:
            raise DatasetError(f"{where}: query {quoted(query_id)} and document {quoted(doc_id)} are not in the data")
        if not text:
            empty += 1
        elif text not in map(str, GRADES):
            raise DatasetError(f"{where}: 'grade' is {quoted(text)}: allowed are 0, 1, 2, 3 and nothing")
        else:
            graded[query_id, doc_id] = int(text)
    known = desk.labels.grades
    for (query_id, doc_id), grade in graded.items():
        if known.get((query_id, doc_id)) != grade:
            desk.labels.add(Label(query_id=query_id, doc_id=doc_id, grade=grade))
    desk.write()
    return len(graded), empty


def _rows(file: Path) -> Iterator[tuple[str, dict[str, str | None]]]:
    lines = [line for _, line in read_raw_lines(file)]
    separator = ";" if lines and lines[0].count(";") > lines[0].count(",") else ","  # some spreadsheets write that
    table = csv.DictReader(lines, delimiter=separator)
    if missing := [name for name in ("grade", "query_id", "doc_id") if name not in (table.fieldnames or ())]:
        raise DatasetError(f"{file}: column {missing[0]!r} is missing: needed are grade, query_id and doc_id")
    for row in table:
        yield f"{file}:{table.line_num}", row


class _Grade(BaseModel):
    grade: Literal[0, 1, 2, 3]


def judge_by_model(desk: Desk, words: str, most: int, progress: Progress) -> tuple[str, int]:
    """Let a model grade until the labels decide or ``most`` answers came; its name, and how many it did not grade."""
    node = _configured(words)
    client: LLMClient = instantiate(node["llm"], _convert_="all")
    prompts = PromptLibrary(node["prompts"]["source"])
    client.prepare()
    failed: set[tuple[str, str]] = set()
    asked = 0
    while asked < most and desk.verdict().decision.verdict == "undecided":
        left = (task for task in desk.tasks() if (task.query_id, task.doc_id) not in failed)
        tasks = list(islice(left, min(2 * client.concurrency, most - asked)))
        if not tasks:
            break
        asked += len(tasks)
        messages = [prompts.render(node["prompt"], _values(task, node["max_doc_tokens"])) for task in tasks]
        answers = client.chat_json_many(messages, _Grade, max_tokens=node["max_answer_tokens"])
        errors = {}
        for task, answer in zip(tasks, answers, strict=True):
            if isinstance(answer, LLMError):
                errors[task.query_id, task.doc_id] = answer
            else:
                desk.grade(task, answer.parsed.grade, by=client.model)
        failed |= errors.keys()
        if len(errors) == len(tasks):
            raise LLMError(f"{client.model} graded none of {len(tasks)} documents: {next(iter(errors.values()))}")
        progress(asked, most)
    return client.model, len(failed)


def _configured(words: str) -> Mapping[str, Any]:
    """The options of ``reranker=llm_pointwise`` with that model, whose prompt judges."""
    choice, *options = shlex.split(words) or [""]
    if "=" in choice or not all("=" in option for option in options):
        raise ConfigError(f"--llm {words!r}: allowed is a file of conf/llm and its options, e.g. 'local model=qwen3'")
    given = [f"reranker.llm.{option}" for option in options]
    node: Mapping[str, Any] = compose(["reranker=llm_pointwise", f"llm@reranker.llm={choice}", *given])["reranker"]
    return node


def _values(task: Task, doc_tokens: int) -> dict[str, str]:
    text = f"{task.title} {task.text}".strip()
    last = next(islice(token_spans(text), doc_tokens - 1, None), None)
    shown = text if last is None else text[: last[1]]
    return {"query": fence(task.query, "query"), "document": fence(shown, "document")}


PAGE = Path(__file__).with_name("page.html")
HOST = "127.0.0.1"
MAX_BODY = 10_000
"""Bytes of a request; ids are short."""

TIMEOUT_S = 10.0
"""Seconds that a connection may stay silent; browsers open some that they do not use."""


def serve_page(desk: Desk, port: int) -> ThreadingHTTPServer:
    """The server of the page, which listens on 127.0.0.1 already; ``serve_forever()`` serves."""

    class Handler(_Handler):
        pass

    Handler.desk, Handler.turn = desk, Lock()
    try:
        return ThreadingHTTPServer((HOST, port), Handler)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"--port {port}: {error}; allowed is a free port, or 0 for any") from None


class _Handler(BaseHTTPRequestHandler):
    """``GET /`` is the page, ``GET /state`` what it shows, ``POST /act`` what a key does."""

    desk: Desk
    turn: Lock  # one request at a time reads or changes the labels
    timeout = TIMEOUT_S

    def do_GET(self) -> None:
        if not self._is_ours():
            self._send(HTTPStatus.FORBIDDEN, {"error": "this page is for this machine only"})
        elif self.path == "/":
            self._reply(HTTPStatus.OK, "text/html; charset=utf-8", PAGE.read_bytes())
        elif self.path == "/state":
            with self.turn:
                self._send(HTTPStatus.OK, self._state())
        else:
            self._send(HTTPStatus.NOT_FOUND, {"error": "allowed are / and /state"})

    def do_POST(self) -> None:
        """Do what a key says: ``{"action": 0 | 1 | 2 | 3 | "skip" | "undo", "query_id": ..., "doc_id": ...}``."""
        # A page of another origin can send no JSON without being asked first, which nothing here answers.
        if not self._is_ours() or self.headers.get("Content-Type") != "application/json" or self.path != "/act":
            self._send(HTTPStatus.FORBIDDEN, {"error": "allowed is JSON to /act, from this page"})
            return
        try:
            length = int(self.headers["Content-Length"])
            wish = json.loads(self.rfile.read(min(max(0, length), MAX_BODY)))
            action, shown = wish["action"], (wish.get("query_id"), wish.get("doc_id"))
        except (ValueError, TypeError, KeyError, AttributeError):
            self._send(HTTPStatus.BAD_REQUEST, {"error": "allowed is an object with action, query_id and doc_id"})
            return
        with self.turn:
            self._act(action, shown)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing of single requests."""

    def _act(self, action: Any, shown: tuple[object, object]) -> None:
        task = self.desk.next()
        if action == "undo":
            self.desk.undo()
        elif task is None or shown != (task.query_id, task.doc_id):
            pass  # a key pressed twice, or in a second window: the state says what is asked now
        elif action == SKIPPED or (type(action) is int and action in GRADES):
            self.desk.grade(task, action)
        else:
            self._send(HTTPStatus.BAD_REQUEST, {"error": "allowed actions are 0, 1, 2, 3, skip and undo"})
            return
        self._send(HTTPStatus.OK, self._state())

    def _state(self) -> dict[str, Any]:
        task = self.desk.next()
        return {"text": self.desk.verdict().text, "legend": list(LEGEND), "task": None if task is None else vars(task)}

    def _is_ours(self) -> bool:
        """Whether the address is this server's by its own name: a foreign name may be pointed at it."""
        host, port = self.headers.get("Host"), self.connection.getsockname()[1]
        return host in (f"{HOST}:{port}", f"localhost:{port}")

    def _send(self, status: HTTPStatus, content: dict[str, Any]) -> None:
        self._reply(status, "application/json", json.dumps(content).encode())

    def _reply(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
            "connect-src 'self'; frame-ancestors 'none'",
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
