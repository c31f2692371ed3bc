"""The schema. The example file quotes the docstrings below."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, StringConstraints

from ragtune.data.caches.diskcache import AUTO
from ragtune.superprompt.frozen import Frozen
from ragtune.superprompt.limits import PipelineConfig
from ragtune.superprompt.reranking import CROSS_ENCODER

AgentStageName = Literal["A0_PreProcessing", "A2_PromptShaper", "A3_NLI_Gate", "A4_Condenser", "A5_Format_Enforcer"]
AGENT_STAGES: tuple[AgentStageName, ...] = get_args(AgentStageName)
"""Stages that may ask a language model."""


class EmbedderOptions(Frozen):
    """How Retrieval compares texts.

    Attributes:
        kind: auto is tfidf, or for a collection the hashing that it was made with; tfidf and hashing need no model.
        model: folder or name of the embedding model, for sentence_transformer and openai_compatible.
        dims: length of the vectors, where it can be chosen; null is the model's length, 256 for hashing.
        base_url: OpenAI-compatible server of openai_compatible; null is $OPENAI_BASE_URL, else OpenAI's.
        api_key_env: NAME of the variable that holds the server's key, never the key.
    """

    kind: Literal["auto", "tfidf", "hashing", "sentence_transformer", "openai_compatible"] = "auto"
    model: str | None = None
    dims: int | None = Field(default=None, ge=1)
    base_url: str | None = None
    api_key_env: str = "OPENAI_API_KEY"


class MemoryOptions(Frozen):
    """The long-term memory: documents, a collection of ragd, or both, which are searched as one.

    Attributes:
        folder: Markdown and text files (or one file), or a collection in BEIR's layout; null is the shipped demo
            collection, or none with a ragd collection.
        collection: name of a ragd collection; the folder's documents replace its documents of the same name.
        dsn: the collection's PostgreSQL server; $RAGTUNE_DSN keeps a password out of files.
        data_dir: folder of the embedded PostgreSQL, used without a DSN; null is ragd's own.
        tags_any: a chunk of the collection must have at least one of these tags.
        tags_all: a chunk of the collection must have all these tags.
        metadata: values that top-level keys of the chunks' metadata must equal.
    """

    folder: Path | None = None
    collection: str | None = Field(default=None, min_length=1)
    dsn: str | None = Field(default=None, repr=False)
    data_dir: Path | None = None
    tags_any: tuple[str, ...] = ()
    tags_all: tuple[str, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)


class RerankerOptions(Frozen):
    """How the ReRanker orders.

    Attributes:
        kind: cross_encoder scores the top N2; budgeted scores a part of them; auto is cross_encoder where the model is
            on this machine, else latent semantic analysis of the documents, which needs no model.
        model: folder or hub name of a cross-encoder.
        budget: limit of chunks that budgeted scores for a prompt.
    """

    kind: Literal["auto", "none", "cross_encoder", "budgeted"] = "auto"
    model: str = CROSS_ENCODER
    budget: int = Field(default=20, ge=1)


class LLMOptions(Frozen):
    """The language model of A0, A2, A3, A4, A5 and of the answer.

    Attributes:
        model: name of the model as the server spells it; null for no model.
        stages: stages that ask it; the others follow their documented rules.
        base_url: address of an OpenAI-compatible server; null is $OPENAI_BASE_URL, else OpenAI's.
        api_key_env: NAME of the variable that holds the key, never the key.
        mode: live sends everything; record sends requests that are not recorded yet; replay sends nothing.
        cache_dir: folder of the recorded answers; auto is $RAGTUNE_CACHE or the platform's cache folder.
        json_mode: field that asks the server for JSON; none leaves it to the prompt.
        temperature: null sends none.
        seed: null sends none.
        max_tokens: limit of tokens of the final answer; the agents' files have those of the stages.
        thinking_tokens: limit of tokens of thoughts before an answer; a request states the sum of both.
        max_tokens_field: the server's name of that limit.
        timeout_s: time limit of one attempt in seconds.
        max_retries: further attempts on 429, 5xx, timeouts and lost connections.
        concurrency: requests at once.
        prices: dollars per 1,000 tokens, {model: {prompt: p, completion: c}}; null: calls are free.
        extra: further fields of every request.
    """

    model: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)] | None = None
    stages: tuple[AgentStageName, ...] = AGENT_STAGES
    base_url: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    mode: Literal["live", "record", "replay"] = "record"
    cache_dir: str | None = AUTO
    json_mode: Literal["none", "json_object", "json_schema"] = "none"
    temperature: float | None = Field(default=0.0, ge=0.0)
    seed: int | None = 0
    max_tokens: int = Field(default=1024, ge=1)
    thinking_tokens: int = Field(default=4096, ge=0)
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    timeout_s: float = Field(default=120.0, gt=0.0, allow_inf_nan=False)
    max_retries: int = Field(default=4, ge=0)
    concurrency: int = Field(default=4, ge=1)
    prices: dict[str, dict[str, float]] | None = None
    extra: dict[str, Any] = Field(default_factory=dict)


class PromptOptions(PipelineConfig):
    """All options: a :class:`PipelineConfig` with the settings of memory, embedder, reranker and language model.

    Attributes:
        agents: folder of agents' configurations that replace the packaged ones.
        a2_passes: 2 lets A2 refine its first answer.
        prompt_schema: the prompt schema; a file replaces only the parts that it names.
        memory: sources of context besides the conversation.
        embedder: how Retrieval compares texts.
        reranker: how the ReRanker orders.
        llm: the language model.
    """

    agents: Path | None = None
    a2_passes: Literal[1, 2] = 1
    memory: MemoryOptions = MemoryOptions()
    embedder: EmbedderOptions = EmbedderOptions()
    reranker: RerankerOptions = RerankerOptions()
    llm: LLMOptions = LLMOptions()
