"""The pipeline's numbers and switches (rule E4): all from one file, none in code."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragtune.canonical.policies import ChunkPolicy
from ragtune.core.errors import ConfigError
from ragtune.superprompt.reading.schema import PromptSchema

DEFAULTS = "pipeline.json"


class Limits(BaseModel):
    """The named constants, written in capitals in the file. Soft caps: a stage may stay below one, never above.

    Attributes:
        n0_query_pieces: pieces that the query is cut into.
        n1_retr_max_candidates: chunks kept by Retrieval.
        n2_rerank_top_k: candidates that the reranker may see.
        n3_final_selection_max: ids in the final selection.
        n4_recent_conv_max_pairs: turn pairs in the final prompt; 0 leaves the block out.
        log_avg_exp_tau: sharpness of the mean over pieces, > 0; towards infinity it becomes the maximum.
        min_piece_tokens: shorter queries give fewer pieces, so that they have this many tokens on average.
        piece_slack: how far a cut may move to the end of a sentence or word, as a share of a piece's length.
    """

    n0_query_pieces: int = Field(ge=1)
    n1_retr_max_candidates: int = Field(ge=1)
    n2_rerank_top_k: int = Field(ge=1)
    n3_final_selection_max: int = Field(ge=1)
    n4_recent_conv_max_pairs: int = Field(ge=0)
    log_avg_exp_tau: float = Field(gt=0, allow_inf_nan=False)
    min_piece_tokens: int = Field(ge=1)
    piece_slack: float = Field(ge=0, lt=0.5)

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=str.upper, validate_by_name=True, validate_by_alias=True
    )


class Chunking(BaseModel):
    """How each kind of text is chunked."""

    markdown: ChunkPolicy
    text: ChunkPolicy
    conversation: ChunkPolicy

    model_config = ConfigDict(frozen=True, extra="forbid")


class PipelineConfig(BaseModel):
    """What every stage is given beside the SuperPrompt.

    Attributes:
        limits: the N-constants.
        chunking: how memories and turns are chunked.
        llm_off: what a stage without its agent does: its documented ``default``, or ``refuse``.
        llm_failure: what a stage whose agent fails does: ``default`` or ``refuse``.
        nothing_found: ``notice`` lets a prompt go on without context and says so, ``refuse`` stops it at Retrieval.
        request_words: words that say what is to be done, not what about.
        prompt_schema: keys, names and defaults of A0.
    """

    limits: Limits
    chunking: Chunking
    llm_off: Literal["default", "refuse"]
    llm_failure: Literal["default", "refuse"]
    nothing_found: Literal["notice", "refuse"]
    request_words: frozenset[str] = frozenset()
    prompt_schema: PromptSchema = Field(default_factory=PromptSchema.load)

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def load(cls, path: str | Path | None = None, **limits: int | float) -> PipelineConfig:
        """The configuration of a file; by default the one that comes with the package.

        Args:
            path: JSON file with the keys of the packaged one.
            limits: single limits to replace, by either spelling, e.g. ``n1_retr_max_candidates=50``.

        Raises:
            ConfigError: if the file is missing or malformed, or a value is not allowed; the message names it.
        """
        text = _packaged() if path is None else _read(Path(path))
        try:
            config = cls.model_validate_json(text)
            if not limits:
                return config
            changed: dict[str, Any] = config.limits.model_dump(by_alias=True)
            changed |= {name.upper(): value for name, value in limits.items()}
            return config.model_copy(update={"limits": Limits.model_validate(changed)})
        except ValidationError as error:
            first = error.errors()[0]
            where = f" {'.'.join(map(str, first['loc']))}={first['input']!r}:" if first["loc"] else ""
            raise ConfigError(f"pipeline configuration {path or DEFAULTS}:{where} {first['msg']}") from error


@cache
def _packaged() -> str:
    return (files("ragtune.superprompt.config") / DEFAULTS).read_text(encoding="utf-8")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"pipeline configuration {str(path)!r} cannot be read ({error})") from error
