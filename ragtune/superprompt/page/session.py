"""What the page knows and does; the page itself only draws it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragtune.core.errors import RagtuneError
from ragtune.core.interfaces import BaseReranker
from ragtune.llm.errors import AnswerError, ServiceError
from ragtune.superprompt import Pipeline, SuperPrompt, Turn
from ragtune.superprompt.answering import Answerer
from ragtune.superprompt.limits import Chunking
from ragtune.superprompt.memory.folders import DocumentSet
from ragtune.superprompt.options import PromptOptions, load_options
from ragtune.superprompt.options.model import EmbedderOptions, MemoryOptions, RerankerOptions
from ragtune.superprompt.options.parts import check_options, make_client, make_pipeline, make_reranker
from ragtune.superprompt.page.conversation import parse_conversation
from ragtune.superprompt.page.memories import Memories
from ragtune.superprompt.page.records import cost_entry, cost_rows, notices_of
from ragtune.superprompt.stages.base import ORDER, FailedStageError, next_stage
from ragtune.superprompt.super_prompt import LIFECYCLE

FIRST = ORDER[0]
ANSWER = "answer"
_Inputs = tuple[str, tuple[Turn, ...]]
_Search = tuple[tuple[DocumentSet, ...], MemoryOptions, EmbedderOptions, Chunking]


@dataclass(frozen=True)
class Problem:
    """Something that went wrong; the SuperPrompt is as it was before.

    Attributes:
        where: name of the stage or of the input (``conversation``, ``settings``) that it concerns.
        message: what went wrong, and what to do.
    """

    where: str
    message: str


class PageSession:
    """One person's work on one prompt: the inputs, the SuperPrompt, what failed, and what may be done next.

    Inputs may change at any time. A changed prompt or conversation, or documents that changed after Retrieval, leave
    what the stages did standing, but only A0 may run then: it begins again. Settings count for the stages run from then
    on, so that a stage which failed for want of a language model can be run without one; those of the search itself
    (memory, embedder, chunking) are as documents are.

    Attributes:
        options: the settings, which a person may change by :meth:`set_settings`.
        sp: the SuperPrompt as the last stage left it.
        problem: what went wrong in the last stage that was run; None if it went well.
        answer: the language model's answer to the final prompt; None before it was asked.
    """

    def __init__(self, prompt: str = "") -> None:
        self.prompt = prompt
        self.conversation = ""
        self.options = load_options()
        self._settings: Sequence[Mapping[str, Any]] = ()
        self.documents: tuple[DocumentSet, ...] = ()
        self.sp = SuperPrompt.raw(prompt)
        self.problem: Problem | None = None
        self.answer: str | None = None
        self.input_problems: dict[str, Problem] = {}
        self._other_costs: list[dict[str, Any]] = []
        self._turns: tuple[Turn, ...] = ()
        self._memories = Memories()
        self._searched: _Search | None = None
        self._started: _Inputs | None = None
        self._reranker: tuple[RerankerOptions, BaseReranker | None] | None = None

    # -- inputs ----------------------------------------------------------------------------------------------------

    def set_prompt(self, text: str) -> None:
        """Take the prompt that the person wrote."""
        self.prompt = text

    def set_conversation(self, text: str) -> None:
        """Take the recent turns, which :func:`parse_conversation` reads."""
        if text != self.conversation:
            self.conversation = text
            self._check("conversation", lambda: self._set_turns(parse_conversation(text)))

    def set_documents(self, *documents: DocumentSet) -> None:
        """Take the documents that are searched beside the conversation."""
        self.documents = documents

    def set_settings(self, *layers: Mapping[str, Any]) -> None:
        """Take options, each mapping over the one before, and check them at once: a bad value is seen before a stage
        runs into it, and the options stay as they were.
        """
        if layers != self._settings:
            self._settings = layers
            self._check("settings", lambda: self._set_options(load_options(None, *layers)))

    # -- what may be done ------------------------------------------------------------------------------------------

    @property
    def stale(self) -> str | None:
        """Why the stages must begin again, in words; None if they need not."""
        if self._started is None:
            return None
        prompt, turns = self._started
        searched = self._searched or self._search
        are_changed = {
            "the prompt": prompt != self.prompt,
            "the conversation": turns != self._turns,
            "the documents": searched[:2] != self._search[:2],
            "embedder or chunking": searched[2:] != self._search[2:],
        }
        changed = [name for name, is_changed in are_changed.items() if is_changed]
        return f"{' and '.join(changed)} changed: run {FIRST} to begin again" if changed else None

    @property
    def costs(self) -> list[dict[str, Any]]:
        """What was spent since the last reset, failed attempts and the answer included, as rows."""
        return cost_rows(self.sp, self._other_costs)

    @property
    def notices(self) -> list[str]:
        """What the person should know about the outcome so far."""
        return notices_of(self.sp)

    @property
    def can_ask(self) -> bool:
        """Whether the final prompt can be sent to the language model."""
        is_ready = self.has_run(ORDER[-1]) and self.stale is None and not self.input_problems
        return is_ready and self.options.llm.model is not None

    def can_run(self, name: str) -> bool:
        """Whether a stage's button is enabled."""
        if self.input_problems:
            return False
        if name == FIRST:
            return True
        return self.stale is None and name == next_stage(self.sp)

    def has_run(self, name: str) -> bool:
        """Whether the SuperPrompt has passed a stage."""
        if name == ORDER[-1]:
            return bool(self.sp.system_md)
        return LIFECYCLE.index(self.sp.stage) > ORDER.index(name)

    # -- doing it --------------------------------------------------------------------------------------------------

    def run(self, name: str) -> None:
        """Run one stage; on failure ``problem`` says what to do and the SuperPrompt is as it was."""
        self._attempt(name, lambda pipeline, sp: self._keep(name, pipeline.run_stage(name, sp)))

    def run_all(self, after: Callable[[str], None] | None = None) -> None:
        """Run all stages from A0; what was reached before a failure stays.

        Args:
            after: function that is called with the name of every stage that is done.
        """

        def reached(name: str, sp: SuperPrompt) -> None:
            self._keep(name, sp)
            if after is not None:
                after(name)

        self._attempt(FIRST, lambda pipeline, sp: pipeline.run_all(sp, reached))

    def ask(self) -> None:
        """Send the final prompt to the language model; on failure ``problem`` says what to do."""
        self.problem = None
        try:
            result = Answerer(make_client(self.options.llm)).answer(self.sp)
        except RagtuneError as error:
            self.problem = Problem(ANSWER, str(error))
            if isinstance(error, ServiceError | AnswerError):
                self._other_costs.append(cost_entry(ANSWER, "failed", error.cost, error.paid))
            return
        self.answer = result.text
        self._other_costs.append(cost_entry(ANSWER, "done", result.cost, result.paid))

    def reset(self) -> None:
        """Forget what the stages did; inputs and settings stay."""
        self.sp = SuperPrompt.raw(self.prompt)
        self.problem = None
        self.answer = None
        self._other_costs = []
        self._started = None
        self._searched = None

    def _attempt(self, name: str, act: Callable[[Pipeline, SuperPrompt], object]) -> None:
        self.problem = None
        try:
            sp = self.sp
            if name == FIRST:
                sp = sp.with_user_text(self.prompt).model_copy(update={"recent_conversation": list(self._turns)})
            act(self._pipeline(), sp)
        except FailedStageError as error:
            self._other_costs.append(cost_entry(error.stage, "failed", error.cost, error.paid))
            self.problem = Problem(error.stage, str(error))
        except RagtuneError as error:
            self.problem = Problem(name, str(error))

    def _check(self, name: str, act: Callable[[], object]) -> None:
        self.input_problems.pop(name, None)
        try:
            act()
        except RagtuneError as error:
            self.input_problems[name] = Problem(name, str(error))

    def _set_turns(self, turns: Sequence[Turn]) -> None:
        self._turns = tuple(turns)

    def _set_options(self, options: PromptOptions) -> None:
        check_options(options)
        self.options = options

    @property
    def _search(self) -> _Search:
        """All that decides what Retrieval finds."""
        options = self.options
        return self.documents, options.memory, options.embedder, options.chunking

    def _keep(self, name: str, sp: SuperPrompt) -> None:
        self.sp = sp
        self.answer = None
        if name == FIRST:
            self._started = (self.prompt, self._turns)
            self._searched = None
        if name == "Retrieval":
            self._searched = self._search

    def _pipeline(self) -> Pipeline:
        memory = self._memories.get(self.options, *self._search[0])
        wanted = self.options.reranker
        if self._reranker is None or self._reranker[0] != wanted:
            self._reranker = (wanted, make_reranker(wanted))
        return make_pipeline(self.options, memory, self._turns, self._reranker[1], sets=self._search[0])
