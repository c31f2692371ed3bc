"""The state that the eight stages pass on (rules E1 and E3)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ragtune.canonical.types import Chunk
from ragtune.llm.types import well_formed
from ragtune.superprompt.frozen import Frozen

Lifecycle = Literal["raw", "preprocessed", "a2", "retrieval", "reranked", "a3", "a4", "a5"]

LIFECYCLE: tuple[Lifecycle, ...] = get_args(Lifecycle)
"""Values of ``SuperPrompt.stage`` in their only order."""

VIEWS: tuple[Lifecycle, ...] = ("retrieval", "reranked", "a3", "a4")
"""Stages that write a view, each a selection from the one before it."""

Source = Literal["conversation", "memory"]

Text = Annotated[str, BeforeValidator(lambda value: well_formed(value) if isinstance(value, str) else value)]
"""A string that a file or request can hold: without half surrogate pairs."""


class ContextChunk(Chunk):
    """One retrieved piece of text (rule E3), frozen: a canonical chunk with its source."""

    source: Source

    @property
    def id(self) -> str:
        """``doc_id#chunk_index``. The index follows the last ``#``, so ids are unambiguous."""
        return f"{self.doc_id}#{self.chunk_index}"

    @property
    def snippet(self) -> str:
        """The text that is scored, judged and quoted."""
        return self.content

    @property
    def tie_key(self) -> tuple[int, str, int]:
        """Ascending order of equal scores: conversation first, document, position in it."""
        return int(self.source == "memory"), self.doc_id, self.chunk_index

    @classmethod
    def of(cls, chunk: Chunk, source: Source) -> ContextChunk:
        """Return a canonical chunk with its source."""
        return cls(**chunk.__dict__, source=source)


class Turn(Frozen):
    """One utterance of the recent conversation.

    Examples:
        >>> from ragtune.superprompt.super_prompt import Turn
        >>> Turn(role="user", content="Compare green and black tea.").role
        'user'
    """

    role: Literal["user", "assistant"]
    content: Text


class SuperPrompt(BaseModel):
    """A prompt on its way through the pipeline.

    Python names are snake_case; the JSON form uses the specification's names. Stages change a copy.

    Attributes:
        user_text: the raw prompt that A0 reads.
        stage: the last completed stage value.
        history_of_stages: every stage value in the order of completion; it only grows, also when A0 runs again.
        body: text by canonical key.
        extras: logs of the stages by key; JSON values only.
        base_context_chunks: all chunks that Retrieval found, unique by id.
        views_by_stage: ordered chunk ids by the stage that wrote them.
        final_selection_ids: the current selection; empty before A3.
        recent_conversation: the session's turns, oldest first.
        system_md, prompt_md, s_ctx_md, attachments_md: rendered blocks; empty before their stage.
        prompt_ready: a snapshot of the body; after Prompt_Builder the final prompt.

    Raises:
        ValidationError: if an invariant is broken, see :meth:`problem`.

    Examples:
        >>> from ragtune.superprompt import SuperPrompt
        >>> SuperPrompt.raw("Task: explain sourdough").stage
        'raw'
    """

    user_text: Text = ""
    stage: Lifecycle = "raw"
    history_of_stages: list[Lifecycle] = Field(default_factory=list)
    body: dict[str, str] = Field(default_factory=dict)
    extras: dict[str, Any] = Field(default_factory=dict)
    base_context_chunks: list[ContextChunk] = Field(default_factory=list)
    views_by_stage: dict[Lifecycle, list[str]] = Field(default_factory=dict)
    final_selection_ids: list[str] = Field(default_factory=list)
    recent_conversation: list[Turn] = Field(default_factory=list, alias="recentConversation")
    system_md: str = Field(default="", alias="System_MD")
    prompt_md: str = Field(default="", alias="Prompt_MD")
    s_ctx_md: str = Field(default="", alias="S_CTX_MD")
    attachments_md: str = Field(default="", alias="Attachments_MD")
    prompt_ready: str = ""

    model_config = ConfigDict(extra="forbid", validate_by_name=True, validate_by_alias=True)

    @model_validator(mode="after")
    def _invariants(self) -> Self:
        problem = self.problem()
        if problem is not None:
            raise ValueError(problem)
        return self

    @classmethod
    def raw(cls, user_text: str, conversation: Sequence[Turn] = ()) -> SuperPrompt:
        """Return a new prompt before A0."""
        return cls(user_text=user_text, recentConversation=list(conversation))

    def with_user_text(self, user_text: str) -> SuperPrompt:
        """Return a copy with another raw prompt, for the next run of A0."""
        return self.model_copy(deep=True, update={"user_text": well_formed(user_text)})

    def restarted(self) -> SuperPrompt:
        """Return a copy as before A0 that keeps the history and the costs."""
        kept = {"costs": self.extras["costs"]} if "costs" in self.extras else {}
        fresh = SuperPrompt(user_text=self.user_text, recentConversation=self.recent_conversation, extras=kept)
        fresh.history_of_stages = self.history_of_stages
        return fresh.model_copy(deep=True)

    def chunks(self, chunk_ids: Sequence[str]) -> list[ContextChunk]:
        """Return chunks by id, in the order of the ids; an unknown id is a ``KeyError``."""
        known = {chunk.id: chunk for chunk in self.base_context_chunks}
        return [known[chunk_id] for chunk_id in chunk_ids]

    def add_notice(self, stage: str, message: str) -> None:
        """Append a notice for the user to ``extras["notices"]``."""
        self.extras.setdefault("notices", []).append({"stage": stage, "message": message})

    def to_json(self) -> str:
        """Return the JSON form. ``SuperPrompt.from_json`` of it has the same JSON form, byte for byte."""
        return self.model_dump_json(by_alias=True)

    @classmethod
    def from_json(cls, text: str) -> SuperPrompt:
        """Read the JSON form and check every invariant."""
        return cls.model_validate_json(text)

    def problem(self) -> str | None:
        """Return the first broken invariant in words, or None."""
        checks = (_history_problem, _views_problem, _extras_problem)
        return next((found for check in checks if (found := check(self)) is not None), None)


def _history_problem(sp: SuperPrompt) -> str | None:
    reached: Lifecycle = "raw"
    for stage in sp.history_of_stages:
        following = LIFECYCLE[LIFECYCLE.index(reached) + 1 :][:1]
        if stage not in ("preprocessed", *following):
            return f"history_of_stages={sp.history_of_stages}: {stage!r} cannot follow {reached!r}"
        reached = stage
    if reached != sp.stage:
        return f"stage={sp.stage!r}, but history_of_stages ends with {reached!r}: they are always the same"
    return None


def _views_problem(sp: SuperPrompt) -> str | None:
    """The first flaw of chunks, views and selection: each is a choice from the one before it, without repetitions."""
    reached = LIFECYCLE.index(sp.stage)
    expected = [view for view in VIEWS if LIFECYCLE.index(view) <= reached]
    if sorted(sp.views_by_stage) != sorted(expected):
        return f"views_by_stage has {sorted(sp.views_by_stage)}: at stage {sp.stage!r} it has {sorted(expected)}"
    allowed = [chunk.id for chunk in sp.base_context_chunks]
    if len(set(allowed)) < len(allowed):
        return f"base_context_chunks holds {max(allowed, key=allowed.count)!r} twice: ids are unique"
    if set(allowed) != set(sp.views_by_stage.get("retrieval", [])):
        return "base_context_chunks and views_by_stage['retrieval'] hold different ids: they are the same set"
    for view in expected:
        ids = sp.views_by_stage[view]
        if len(set(ids)) < len(ids):
            return f"views_by_stage[{view!r}] holds {max(ids, key=ids.count)!r} twice"
        if unknown := sorted(set(ids) - set(allowed)):
            return f"views_by_stage[{view!r}] holds {unknown[0]!r}, which the stage before it does not"
        allowed = ids
    if sp.final_selection_ids != (allowed if "a3" in expected else []):
        return f"final_selection_ids at stage {sp.stage!r} are not those of the latest of A3 and A4"
    return None


def _extras_problem(sp: SuperPrompt) -> str | None:
    try:
        json.dumps(sp.extras, allow_nan=False).encode("utf-8")
    except (TypeError, ValueError) as error:
        return f"extras is not JSON ({error})"
    return None
