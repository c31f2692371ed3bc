"""State and actions of the page; the page only draws them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ragtune.core.errors import DatasetError, RagtuneError
from ragtune.core.types import CostObject
from ragtune.llm.errors import AnswerError, ServiceError
from ragtune.superprompt import Pipeline, SuperPrompt, Turn
from ragtune.superprompt.memory.documents import DocumentMemory
from ragtune.superprompt.memory.inputs import Documents, decode, parse_conversation
from ragtune.superprompt.options import Chunking, EmbedderOptions, MemoryOptions, load_options, parse_options
from ragtune.superprompt.parts import check_options, make_client, make_memory, make_pipeline
from ragtune.superprompt.pipeline import answer
from ragtune.superprompt.stages.base import ORDER, FailedStageError, next_stage
from ragtune.superprompt.super_prompt import LIFECYCLE

CORPUS_VARIABLE = "RAGTUNE_PAGE_CORPUS"
"""Variable with the folder of the documents; the launcher sets it."""

CONFIG_VARIABLE = "RAGTUNE_PAGE_CONFIG"
"""Variable with the configuration file; the launcher sets it."""

FILE_MIB = 2
"""Limit of an uploaded file, in MiB."""

FIRST = ORDER[0]
_Search = tuple[tuple[Documents, ...], MemoryOptions, EmbedderOptions, Chunking]


class PageSession:
    """One person's work on one prompt. A changed input keeps the results, and only A0 may run then."""

    def __init__(self, prompt: str = "") -> None:
        self.prompt = prompt
        self.options = load_options()
        self.documents: tuple[Documents, ...] = ()
        self.sp = SuperPrompt.raw(prompt)
        self.problem: str | None = None
        self.answer: str | None = None
        self.input_problems: dict[str, str] = {}
        self._other_costs: list[dict[str, Any]] = []
        self._turns: tuple[Turn, ...] = ()
        self._started: tuple[str, tuple[Turn, ...], _Search] | None = None
        self._memory: tuple[_Search, DocumentMemory] | None = None

    def set_conversation(self, text: str) -> None:
        self.input_problems.pop("conversation", None)
        try:
            self._turns = tuple(parse_conversation(text))
        except RagtuneError as error:
            self.input_problems["conversation"] = str(error)

    def set_settings(self, text: str) -> None:
        """Set the options from a configuration's text; a bad value changes nothing."""
        self.input_problems.pop("settings", None)
        try:
            options = load_options(None, parse_options(text))
            check_options(options)
            self.options = options
        except RagtuneError as error:
            self.input_problems["settings"] = str(error)

    @property
    def stale(self) -> str | None:
        """Why the stages must begin again, in words; None if they need not."""
        if self._started in (None, (self.prompt, self._turns, self._search)):
            return None
        return f"prompt, conversation, documents or the settings of their search changed: run {FIRST} to begin again"

    @property
    def costs(self) -> list[dict[str, Any]]:
        rows = [*self.sp.extras.get("costs", []), *self._other_costs]
        return [
            {"stage": row["stage"].replace("_", " "), "ms": row.get("ms")}
            | {unit: row["charged"].get(unit) for unit in ("calls", "docs", "tokens", "usd")}
            | {"paid usd": row["paid"].get("usd")}
            for row in rows
        ]

    @property
    def can_ask(self) -> bool:
        is_ready = self.has_run(ORDER[-1]) and self.stale is None and not self.input_problems
        return is_ready and self.options.llm.model is not None

    def can_run(self, name: str) -> bool:
        if self.input_problems:
            return False
        return name == FIRST or (self.stale is None and name == next_stage(self.sp))

    def has_run(self, name: str) -> bool:
        if name == ORDER[-1]:
            return bool(self.sp.system_md)
        return LIFECYCLE.index(self.sp.stage) > ORDER.index(name)

    def run(self, name: str) -> None:
        """Run one stage; after a failure ``problem`` tells what to do."""
        self._attempt(name, lambda pipeline, sp: self._accept(name, pipeline.run_stage(name, sp)))

    def run_all(self) -> None:
        self._attempt(FIRST, lambda pipeline, sp: pipeline.run_all(sp, self._accept))

    def ask(self) -> None:
        """Send the final prompt to the language model; after a failure ``problem`` tells what to do."""
        self.problem = None
        try:
            result = answer(self.sp, make_client(self.options.llm))
        except RagtuneError as error:
            self.problem = str(error)
            if isinstance(error, ServiceError | AnswerError):
                self._spend("answer (failed)", error.cost, error.paid)
            return
        self.answer = result.text
        self._spend("answer", result.cost, result.paid)

    def _attempt(self, name: str, act: Callable[[Pipeline, SuperPrompt], object]) -> None:
        self.problem = None
        try:
            sp = self.sp
            if name == FIRST:
                sp = sp.with_user_text(self.prompt).model_copy(update={"recent_conversation": list(self._turns)})
            act(self._pipeline(), sp)
        except RagtuneError as error:
            self.problem = str(error)
            if isinstance(error, FailedStageError):
                self._spend(f"{error.stage} (failed)", error.cost, error.paid)

    def _spend(self, name: str, charged: CostObject, paid: CostObject) -> None:
        self._other_costs.append({"stage": name, "charged": charged.model_dump(), "paid": paid.model_dump()})

    @property
    def _search(self) -> _Search:
        options = self.options
        return self.documents, options.memory, options.embedder, options.chunking

    def _accept(self, name: str, sp: SuperPrompt) -> None:
        self.sp = sp
        self.answer = None
        if name == FIRST:
            self._started = (self.prompt, self._turns, self._search)

    def _pipeline(self) -> Pipeline:
        """The pipeline of the options; the memory stays open while its options are the same."""
        if self._memory is None or self._memory[0] != self._search:
            self._memory = (self._search, make_memory(self.options, *self.documents))
        return make_pipeline(self.options, self._memory[1])


def read_uploads(files: Sequence[tuple[str, bytes]]) -> tuple[dict[str, str], list[str]]:
    """Return the usable documents among uploaded files (name and content), and one line for each refused file."""
    texts: dict[str, str] = {}
    refused: list[str] = []
    for name, data in files:
        try:
            if name in texts:
                raise DatasetError(f"{name}: there are two files of this name: rename one")
            texts[name] = decode(name, data)
        except DatasetError as error:
            refused.append(str(error))
    return texts, refused
