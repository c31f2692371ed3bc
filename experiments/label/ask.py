"""Two ways to ask for labels: keys in the terminal, and a language model."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from textwrap import fill
from typing import Any, Literal

from hydra.utils import instantiate
from pydantic import BaseModel

from experiments.config.compose import compose
from experiments.config.progress import Progress
from experiments.label.desk import LEGEND, SKIPPED, Desk, Task
from ragtune.core.errors import ConfigError, LLMError
from ragtune.core.tokens import token_spans
from ragtune.llm.client import LLMClient
from ragtune.llm.prompts import PromptLibrary, fence

KEYS = "0-3 grade, s skip, u undo, q quit"
WIDTH = 100
SHOWN = 2000
"""Characters of a document that the terminal shows."""


def judge_in_terminal(desk: Desk, most: int | None) -> None:
    """Ask for grades until the person quits, ``most`` labels were given, or nothing is left."""
    given = 0
    sys.stdout.write("\n".join([*LEGEND, ""]))
    keys = _keys()
    with _unbuffered():
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
