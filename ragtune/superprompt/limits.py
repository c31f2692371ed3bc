"""The pipeline's numbers and switches (rule E4): all from one file, none in code."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragtune.canonical.policies import ChunkPolicy
from ragtune.core.errors import ConfigError
from ragtune.superprompt.frozen import Frozen, flaws_in
from ragtune.superprompt.reading.schema import PromptSchema


class Limits(BaseModel):
    """The named constants, in capitals in the file. They are upper limits.

    Attributes:
        n0_query_pieces: pieces of the query.
        n1_retr_max_candidates: chunks that Retrieval keeps.
        n2_rerank_top_k: candidates for the reranker.
        n3_final_selection_max: ids in the final selection.
        n4_recent_conv_max_pairs: turn pairs in the final prompt; 0 leaves the block out.
        log_avg_exp_tau: sharpness of the mean over pieces, > 0; towards infinity it becomes the maximum.
        min_piece_tokens: least average tokens of a piece; shorter queries give fewer pieces.
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

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=str.upper)


class Chunking(Frozen):
    """Chunk policy by kind of text."""

    markdown: ChunkPolicy
    text: ChunkPolicy
    conversation: ChunkPolicy


class PipelineConfig(Frozen):
    """Configuration of every stage.

    Attributes:
        limits: the named constants.
        chunking: how memories and turns are chunked.
        llm_failure: a stage whose agent fails follows its ``default`` rule, or refuses.
        request_words: words of a request that do not name its subject.
        prompt_schema: keys, names and defaults of A0.
    """

    limits: Limits
    chunking: Chunking
    llm_failure: Literal["default", "refuse"]
    request_words: tuple[str, ...] = ()
    prompt_schema: PromptSchema = Field(default_factory=PromptSchema.load)

    @classmethod
    def load(cls, **limits: int | float) -> PipelineConfig:
        """Return the packaged configuration; :func:`ragtune.superprompt.options.load_options` reads a file over it.

        Args:
            limits: limits to replace, in either spelling, e.g. ``n1_retr_max_candidates=50``.

        Raises:
            ConfigError: if a limit is unknown or not allowed; the message names it.
        """
        config = cls.model_validate_json(packaged())
        changed = config.limits.model_dump(by_alias=True) | {name.upper(): value for name, value in limits.items()}
        try:
            return config.model_copy(update={"limits": Limits.model_validate(changed)})
        except ValidationError as error:
            raise ConfigError(f"pipeline configuration: {flaws_in(error)}") from error


@cache
def packaged() -> str:
    """Return the packaged configuration as JSON."""
    return (files("ragtune.superprompt") / "config" / "pipeline.json").read_text(encoding="utf-8")
