"""A language model in place of a person; its labels are marked as such."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import islice
from typing import Any, Literal

from hydra.utils import instantiate
from pydantic import BaseModel

from experiments.config.compose import compose
from experiments.config.progress import Progress
from experiments.label.desk import Desk, Task
from ragtune.core.errors import ConfigError, LLMError
from ragtune.core.tokens import token_spans
from ragtune.llm.client import LLMClient
from ragtune.llm.prompts import PromptLibrary, fence
from ragtune.llm.types import Message


class _Grade(BaseModel):
    grade: Literal[0, 1, 2, 3]


class Judge:
    """Grades documents 0 to 3 by the prompt of ``reranker=llm_pointwise`` (``reranking.llm_pointwise`` in
    ``conf/prompts.yaml``).
    """

    def __init__(self, words: str) -> None:
        choice, *options = shlex.split(words) or [""]
        if "=" in choice or not all("=" in option for option in options):
            raise ConfigError(
                f"--llm {words!r}: allowed is a file of conf/llm and its options, e.g. 'local model=qwen3'"
            )
        given = [f"reranker.llm.{option}" for option in options]
        node: dict[str, Any] = compose(["reranker=llm_pointwise", f"llm@reranker.llm={choice}", *given])["reranker"]
        self._client: LLMClient = instantiate(node["llm"], _convert_="all")
        self._prompts = PromptLibrary(node["prompts"]["source"])
        self._prompt, self._doc_tokens, self._answer = (
            node[name] for name in ("prompt", "max_doc_tokens", "max_answer_tokens")
        )

    @property
    def name(self) -> str:
        """The model, as its labels are marked."""
        return self._client.model

    def judge(self, desk: Desk, most: int, progress: Progress) -> int:
        """Judge until the labels decide, ``most`` answers came, or nothing is left; return how many gave no grade."""
        self._client.prepare()
        failed: set[tuple[str, str]] = set()
        asked = 0
        while asked < most and desk.verdict().decision.verdict == "undecided":
            left = (task for task in desk.tasks() if (task.query_id, task.doc_id) not in failed)
            tasks = list(islice(left, min(2 * self._client.concurrency, most - asked)))
            if not tasks:
                break
            asked += len(tasks)
            errors = self._ask(desk, tasks)
            failed |= errors.keys()
            if len(errors) == len(tasks):
                raise LLMError(f"{self.name} graded none of {len(tasks)} documents: {next(iter(errors.values()))}")
            progress(asked, most)
        return len(failed)

    def _ask(self, desk: Desk, tasks: Sequence[Task]) -> dict[tuple[str, str], LLMError]:
        answers = self._client.chat_json_many(list(map(self._messages, tasks)), _Grade, max_tokens=self._answer)
        errors = {}
        for task, answer in zip(tasks, answers, strict=True):
            if isinstance(answer, LLMError):
                errors[task.query_id, task.doc_id] = answer
            else:
                desk.grade(task, answer.parsed.grade, by=self.name)
        return errors

    def _messages(self, task: Task) -> list[Message]:
        text = f"{task.title} {task.text}".strip()
        last = next(islice(token_spans(text), self._doc_tokens - 1, None), None)
        shown = text if last is None else text[: last[1]]
        values = {"query": fence(task.query, "query"), "document": fence(shown, "document")}
        return self._prompts.render(self._prompt, values)
