"""The pipeline that settings, documents and a conversation describe."""

from __future__ import annotations

from collections.abc import Sequence

from ragtune.adapters.page.settings import Settings
from ragtune.core.interfaces import BaseReranker
from ragtune.core.request.clock import Clock
from ragtune.superprompt import Pipeline, Turn
from ragtune.superprompt.build import build_pipeline
from ragtune.superprompt.memory.conversation import conversation_chunks
from ragtune.superprompt.memory.documents import DocumentMemory


def assemble(
    settings: Settings,
    memory: DocumentMemory,
    turns: Sequence[Turn] = (),
    reranker: BaseReranker | None = None,
    clock: Clock | None = None,
) -> Pipeline:
    """A pipeline; cheap, since models are loaded by the stage that first needs them.

    The language model's client alone is made ready here, so that no stage's time holds the import of its library.

    Args:
        settings: what the person chose.
        memory: documents that Retrieval searches.
        turns: turns of the conversation, whose chunks may become candidates too.
        reranker: the reranker that ``settings.make_reranker()`` made.
        clock: clock that the stages' milliseconds are read from; None takes the monotonic clock.

    Raises:
        ConfigError: on a setting that is not allowed.
        MissingExtraError: if the language model's client is not installed.
    """
    config = settings.config()
    chunks = [*conversation_chunks(turns, config.chunking.conversation), *memory.chunks]
    rerank_stage = settings.rerank_stage(reranker, chunks)
    client = None if settings.llm is None else settings.llm.client()
    if client is not None:
        client.prepare()
    return build_pipeline(config=config, memory=memory, rerank_stage=rerank_stage, client=client, clock=clock)
