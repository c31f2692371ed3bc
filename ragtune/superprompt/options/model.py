"""The schema. What an option means stands in the docstrings below, which the example file quotes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator

from ragtune.data.caches.diskcache import AUTO
from ragtune.superprompt.limits import PipelineConfig
from ragtune.superprompt.reranking.top import CROSS_ENCODER

AgentStageName = Literal["A0_PreProcessing", "A2_PromptShaper", "A3_NLI_Gate", "A4_Condenser", "A5_Format_Enforcer"]
AGENT_STAGES: tuple[AgentStageName, ...] = get_args(AgentStageName)
"""The stages that may ask a language model."""

_OPTIONS = ConfigDict(frozen=True, extra="forbid")


class EmbedderOptions(BaseModel):
    """What Retrieval compares texts by.

    Attributes:
        kind: auto is tfidf, or for a collection the hashing that it was made with; tfidf and hashing need no model.
        model: folder or name of the embedding model, for sentence_transformer and openai_compatible.
        dims: length of the vectors, where it can be chosen; null is the model's own, 256 for hashing.
        base_url: OpenAI-compatible server of openai_compatible; null is $OPENAI_BASE_URL, else OpenAI's.
        api_key_env: NAME of the variable that holds the server's key, never the key.
        mode: live sends every text; record sends what is not recorded yet; replay sends nothing.
    """

    kind: Literal["auto", "tfidf", "hashing", "sentence_transformer", "openai_compatible"] = "auto"
    model: str | None = None
    dims: int | None = Field(default=None, ge=1)
    base_url: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    mode: Literal["live", "record", "replay"] = "record"

    model_config = _OPTIONS


class MemoryOptions(BaseModel):
    """The long-term memory: documents, a collection that ragd keeps, or both, which are searched as one.

    Attributes:
        folder: Markdown and text files (or one file), or a collection in BEIR's layout; null is the shipped demo
            collection, and beside a ragd collection none.
        collection: name of a ragd collection; its documents give way to the folder's of the same name. Null for none.
        dsn: the collection's PostgreSQL server; $RAGTUNE_DSN keeps a password out of files.
        data_dir: folder of the embedded PostgreSQL, used without a DSN; null is ragd's own.
        tags_any: tags of which a chunk of the collection must have at least one.
        tags_all: tags that a chunk of the collection must all have.
        metadata: values that top-level keys of the chunks' metadata must equal.
    """

    folder: Path | None = None
    collection: str | None = Field(default=None, min_length=1)
    dsn: str | None = Field(default=None, repr=False)
    data_dir: Path | None = None
    tags_any: tuple[str, ...] = ()
    tags_all: tuple[str, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)

    model_config = _OPTIONS


class RerankerOptions(BaseModel):
    """How the ReRanker spends.

    Attributes:
        kind: cross_encoder reads the top N2; budgeted reads what is worth it; auto reads the top N2, with the model
            where it is on this machine, else with an installed all-MiniLM-L6-v2, else without a model by recorded
            scores of the collection's own questions, or by latent semantic analysis of the documents.
        model: folder or hub name of a cross-encoder.
        budget: the most chunks that budgeted may read for a prompt.
    """

    kind: Literal["auto", "none", "cross_encoder", "budgeted"] = "auto"
    model: str = CROSS_ENCODER
    budget: int = Field(default=20, ge=1)

    model_config = _OPTIONS


class LLMOptions(BaseModel):
    """The language model of A0, A2, A3, A4, A5 and of the answer.

    Attributes:
        model: name of the model as the server spells it; null asks none.
        stages: the stages that ask it; the others follow their documented rules.
        base_url: address of an OpenAI-compatible server; null is $OPENAI_BASE_URL, else OpenAI's.
        api_key_env: NAME of the variable that holds the key, never the key.
        mode: live sends everything; record sends what is not recorded yet; replay sends nothing.
        cache_dir: folder of the recorded answers; auto is $RAGTUNE_CACHE or the platform's cache folder.
        json_mode: what asks the server for JSON; none leaves it to the prompt.
        temperature: null sends none.
        seed: null sends none.
        max_tokens: the most tokens of the final answer; those of the stages are in the agents' files.
        thinking_tokens: the most tokens of thoughts before any answer; a request states the sum of both.
        max_tokens_field: what the server calls that limit.
        timeout_s: seconds that one attempt may take.
        max_retries: further attempts on 429, 5xx, timeouts and lost connections.
        concurrency: requests at once.
        repair: whether an answer that is not the JSON asked for is sent back once.
        prices: dollars per 1,000 tokens, {model: {prompt: p, completion: c}}; null: calls are free.
        extra: further fields of every request.
    """

    model: str | None = None
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
    repair: bool = True
    prices: dict[str, dict[str, float]] | None = None
    extra: dict[str, Any] = Field(default_factory=dict)

    model_config = _OPTIONS

    @field_validator("model")
    @classmethod
    def _named(cls, model: str | None) -> str | None:
        if model is not None and not model.strip():
            raise ValueError("allowed is the name of a model, or null for none")
        return model if model is None else model.strip()


class PromptOptions(PipelineConfig):
    """The pipeline's configuration, and what its parts are made from: a :class:`PipelineConfig` wherever one is taken.

    Attributes:
        agents: folder of agents' configurations that come before the packaged ones; null for none.
        a2_passes: 2 lets A2 look at its first answer once more.
        schema_file: JSON file of another prompt schema; null is the packaged one. prompt_schema replaces parts of it.
        prompt_schema: parts of the prompt schema that are to be others; what is not named stays.
        embedder: what Retrieval compares texts by.
        memory: where context comes from beside the conversation.
        reranker: how the ReRanker spends.
        llm: the language model.
    """

    agents: Path | None = None
    a2_passes: Literal[1, 2] = 1
    schema_file: Path | None = None
    embedder: EmbedderOptions = EmbedderOptions()
    memory: MemoryOptions = MemoryOptions()
    reranker: RerankerOptions = RerankerOptions()
    llm: LLMOptions = LLMOptions()
