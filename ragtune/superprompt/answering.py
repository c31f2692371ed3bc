"""The last step of auto mode: the final prompt goes to the answering model (rule E15)."""

from __future__ import annotations

from ragtune.core.errors import StageError
from ragtune.llm.client import LLMClient
from ragtune.llm.types import ChatResult, Message
from ragtune.superprompt.reading.fences import BLOCKS, blocks
from ragtune.superprompt.stages.base import ORDER
from ragtune.superprompt.super_prompt import LIFECYCLE, SuperPrompt


class Answerer:
    """Sends System_MD as the system message and the other blocks of ``prompt_ready`` as the user's message.

    The SuperPrompt stays unchanged, and the answer has its own bill.

    Args:
        client: client of the answering model; without one :meth:`answer` raises.
    """

    def __init__(self, client: LLMClient | None = None) -> None:
        self.client = client

    def messages(self, sp: SuperPrompt) -> list[Message]:
        """Return the messages; together they are ``prompt_ready``.

        Raises:
            StageError: before Prompt_Builder has run.
        """
        system = blocks([(BLOCKS[0], sp.system_md)])
        if sp.stage != LIFECYCLE[-1] or not sp.system_md or not sp.prompt_ready.startswith(system):
            raise StageError(f"the final prompt is not there yet: run the stages up to {ORDER[-1]}")
        return [Message("system", system), Message("user", sp.prompt_ready[len(system) :].lstrip("\n"))]

    def answer(self, sp: SuperPrompt) -> ChatResult:
        """Return the model's answer with its cost.

        Raises:
            StageError: without a language model, or before Prompt_Builder has run.
            LLMError: if there is no usable answer.
        """
        messages = self.messages(sp)
        if self.client is None:
            raise StageError("there is no language model to answer: give one, or take prompt_ready to a model yourself")
        return self.client.chat(messages)
