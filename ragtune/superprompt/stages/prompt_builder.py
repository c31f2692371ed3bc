"""Prompt_Builder: the final prompt, block by block (rule E12)."""

from __future__ import annotations

from typing import ClassVar

from ragtune.core.request.context import CostMeter
from ragtune.superprompt.options import PipelineConfig
from ragtune.superprompt.reading.text import BLOCKS, blocks, fenced
from ragtune.superprompt.rendering import NOTHING_FOUND, attachments_md, conversation_md, prompt_md, system_md
from ragtune.superprompt.stages.base import BaseStage
from ragtune.superprompt.super_prompt import SuperPrompt


class PromptBuilder(BaseStage):
    """Fully deterministic. It may run again with the same result, and the stage value stays ``a5``."""

    name: ClassVar[str] = "Prompt_Builder"

    def apply(self, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> None:
        sp.system_md = system_md(sp, config.prompt_schema)
        sp.prompt_md = prompt_md(sp, config.prompt_schema)
        sp.attachments_md = attachments_md(sp)
        # S_CTX quotes documents, so its copy in the final prompt is fenced; the field itself stays as A4 wrote it.
        context = fenced(sp.s_ctx_md, "s_ctx") if sp.s_ctx_md else NOTHING_FOUND
        texts = [sp.system_md, sp.prompt_md, context, sp.attachments_md]
        if conversation := conversation_md(sp.recent_conversation, config.limits.n4_recent_conv_max_pairs):
            texts.append(conversation)
        sp.prompt_ready = blocks(list(zip(BLOCKS, texts, strict=False)))
