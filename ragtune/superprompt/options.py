"""All options of the pipeline in one schema, from files and single values over the packaged defaults.

``docs/prompt-options.yaml`` quotes the docstrings.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ragtune.canonical.policies import ChunkPolicy
from ragtune.core.arguments import did_you_mean
from ragtune.core.errors import ConfigError
from ragtune.core.plain import quoted
from ragtune.data.caches.diskcache import AUTO
from ragtune.superprompt.frozen import Frozen, flaws_in
from ragtune.superprompt.reading.schema import PromptSchema

Values = Mapping[str, Any]

_TABLES = set(PromptSchema.model_fields) - {"typo", "headers", "modes"}
_REPLACED = ("llm.prices", "llm.extra")  # mappings that are one value
_MODELS = ("", "limits", "memory", "embedder", "reranker", "llm")  # mappings whose keys are options

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
AgentStageName = Literal["A0_PreProcessing", "A2_PromptShaper", "A3_NLI_Gate", "A4_Condenser", "A5_Format_Enforcer"]
CROSS_ENCODER = "cross-encoder/ms-marco-MiniLM-L-6-v2"
"""The model of rule E8."""

AGENT_STAGES: tuple[AgentStageName, ...] = get_args(AgentStageName)
"""Stages that may ask a language model."""


class Limits(BaseModel):
    """The named constants, in capitals in the file. They are upper limits."""

    n0_query_pieces: int = Field(ge=1)
    n1_retr_max_candidates: int = Field(ge=1)
    n2_rerank_top_k: int = Field(ge=1)
    n3_final_selection_max: int = Field(ge=1)
    n4_recent_conv_max_pairs: int = Field(ge=0)
    log_avg_exp_tau: float = Field(gt=0, allow_inf_nan=False)
    min_piece_tokens: int = Field(ge=1)
    piece_slack: float = Field(ge=0, lt=0.5)

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=str.upper)


class Chunking(Frozen):
    """Chunk policy by kind of text."""

    markdown: ChunkPolicy
    text: ChunkPolicy
    conversation: ChunkPolicy


class PipelineConfig(Frozen):
    """Configuration of every stage."""

    limits: Limits
    chunking: Chunking
    llm_failure: Literal["default", "refuse"]
    request_words: tuple[str, ...] = ()
    agents: Path | None = None
    a2_passes: Literal[1, 2] = 1
    prompt_schema: PromptSchema = Field(default_factory=PromptSchema.load)

    @staticmethod
    def load(**limits: int | float) -> PipelineConfig:
        """Return the packaged configuration with limits replaced, e.g. ``n1_retr_max_candidates=50``."""
        return load_options(None, {"limits": {name.upper(): value for name, value in limits.items()}})


class EmbedderOptions(Frozen):
    """How Retrieval compares texts."""

    kind: Literal["auto", "tfidf", "sentence_transformer", "openai_compatible"] = "auto"
    model: Name | None = None
    dims: int | None = Field(default=None, ge=1)
    base_url: Name | None = None
    api_key_env: Name = "OPENAI_API_KEY"


class MemoryOptions(Frozen):
    """The long-term memory: documents, a collection of ragd, or both, which are searched as one."""

    folder: Path | None = None
    collection: Name | None = None
    dsn: str | None = Field(default=None, repr=False)
    data_dir: Path | None = None


class RerankerOptions(Frozen):
    """How the ReRanker orders."""

    kind: Literal["auto", "none", "cross_encoder", "budgeted"] = "auto"
    model: Name = CROSS_ENCODER
    budget: int = Field(default=20, ge=1)


class LLMOptions(Frozen):
    """The language model of A0, A2, A3, A4, A5 and of the answer."""

    model: Name | None = None
    stages: tuple[AgentStageName, ...] = AGENT_STAGES
    base_url: Name | None = None
    api_key_env: Name = "OPENAI_API_KEY"
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
    """All options: a :class:`PipelineConfig` with the settings of memory, embedder, reranker and language model."""

    memory: MemoryOptions = MemoryOptions()
    embedder: EmbedderOptions = EmbedderOptions()
    reranker: RerankerOptions = RerankerOptions()
    llm: LLMOptions = LLMOptions()


def load_options(file: str | Path | None = None, *changes: Values) -> PromptOptions:
    """Return the options of a file, with single ones replaced.

    Examples:
        >>> load_options(None, {"reranker": {"kind": "none"}}).reranker.kind
        'none'
    """
    name, layers = "options", list(changes)
    if file is not None:
        name = str(file)
        try:
            text = Path(file).expanduser().read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"configuration {name!r} cannot be read ({error})") from error
        layers.insert(0, parse_options(text, name))
    merged = PromptOptions.model_validate_json(packaged()).model_dump(by_alias=True)
    try:
        for layer in layers:
            merged = _over(merged, layer)
        return PromptOptions.model_validate(merged)
    except ValueError as error:
        flaw = flaws_in(error) if isinstance(error, ValidationError) else error
        raise ConfigError(f"{name}: {flaw}") from None


@cache
def packaged() -> str:
    """Return the packaged configuration as JSON."""
    return (files("ragtune.superprompt") / "config" / "pipeline.json").read_text(encoding="utf-8")


def parse_options(text: str, name: str = "configuration") -> dict[str, Any]:
    """Return the unchecked mapping of a configuration's text, in YAML or JSON; ``name`` is for messages."""
    try:
        values = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{name}: not YAML ({' '.join(str(error).split())[:200]})") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{name}: {quoted(values)}: allowed are options, as ragtune prompt --print-config shows")
    return values


def parse_change(text: str) -> dict[str, Any]:
    """Return ``llm.mode=replay`` as a mapping; the value is YAML."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise ConfigError(f"{text!r}: expected NAME=VALUE, e.g. llm_failure=default or reranker.budget=30")
    return nested({name.strip(): parse_options(f"value: {value}", repr(text)).get("value")})


def nested(flat: Values) -> dict[str, Any]:
    """Return ``{"llm.mode": "live"}`` as ``{"llm": {"mode": "live"}}``."""
    made: dict[str, Any] = {}
    for name, value in flat.items():
        *above, last = name.split(".")
        place = made
        for part in above:
            place = place.setdefault(part, {})
        place[last] = value
    return made


def write_options(options: PromptOptions) -> str:
    """Return options as YAML that :func:`load_options` reads, without the DSN and its password."""
    values = options.model_dump(mode="json", by_alias=True, exclude={"memory": {"dsn"}, "prompt_schema": _TABLES})
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=118)


def _over(below: Values, above: Values, place: str = "") -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old, where = merged.get(key), f"{place}.{key}".strip(".")
        if place in _MODELS and key not in merged:
            near = did_you_mean(str(key), list(merged)) or f": allowed are {', '.join(merged)}"
            raise ValueError(f"{where}: there is no such option{near}")
        is_merged = isinstance(old, Mapping) and isinstance(value, Mapping) and where not in _REPLACED
        merged[key] = _over(old, value, where) if is_merged and old is not None else value
    return merged
