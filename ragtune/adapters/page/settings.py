"""What a person chooses, and the pipeline's parts that come of it; for the page and the command line alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragtune.core.arguments import check_choice, check_count
from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseReranker
from ragtune.superprompt.chunks import ContextChunk
from ragtune.superprompt.limits import Limits, PipelineConfig
from ragtune.superprompt.reranking.base import BaseRerankStage
from ragtune.superprompt.reranking.top import CROSS_ENCODER, TopRerankStage

RERANKERS = ("none", "cross_encoder", "budgeted")
DEFAULT_BUDGET = 20
KEY_VARIABLE = "OPENAI_API_KEY"


@dataclass(frozen=True)
class LLMSettings:
    """Which language model the agents ask.

    Attributes:
        model: name of the model, as the server spells it.
        base_url: address of an OpenAI-compatible server; None takes ``OPENAI_BASE_URL``, else OpenAI's.
        api_key_env: NAME of the variable that holds the key; the key itself is never given here.
        mode: ``live``, ``record`` or ``replay``, see :class:`ragtune.llm.client.LLMClient`.
    """

    model: str
    base_url: str | None = None
    api_key_env: str = KEY_VARIABLE
    mode: str = "record"

    def client(self) -> Any:
        """A client of the chosen language model.

        Raises:
            ConfigError: on a setting that is not allowed.
        """
        from ragtune.llm.client import LLMClient

        return LLMClient(
            model=self.model.strip(),
            base_url=(self.base_url or "").strip() or None,
            api_key_env=self.api_key_env.strip(),
            mode=self.mode,
        )


@dataclass(frozen=True)
class Settings:
    """All that can be chosen.

    Attributes:
        limits: limits that differ from the packaged ones, by either spelling.
        llm: the language model; None for none.
        reranker: ``none``, ``cross_encoder`` (the top N2, all of them), or ``budgeted`` (the budgeted controller).
        reranker_model: folder or hub name of a cross-encoder, for ``cross_encoder`` and ``budgeted``.
        budget_docs: chunks that the budgeted controller may read.
    """

    limits: Mapping[str, int | float] = field(default_factory=dict)
    llm: LLMSettings | None = None
    reranker: str = "none"
    reranker_model: str = CROSS_ENCODER
    budget_docs: int = DEFAULT_BUDGET

    def check(self) -> None:
        """Check that every setting is allowed, without loading anything.

        Raises:
            ConfigError: naming the setting that is not allowed.
            MissingExtraError: if a language model is chosen and its client is not installed.
        """
        self.config()
        self.make_reranker()
        check_count("reranker budget", self.budget_docs, low=1)
        if self.llm is not None:
            self.llm.client()

    def config(self) -> PipelineConfig:
        """The pipeline's configuration.

        Raises:
            ConfigError: naming the first limit that is unknown or out of range.
        """
        allowed = limit_names()
        for name, value in self.limits.items():
            if name.upper() not in allowed:
                raise ConfigError(f"limit {name!r}: allowed are {', '.join(allowed)}")
            _check_finite(name, value)
        return PipelineConfig.load(None, **self.limits)

    def make_reranker(self) -> BaseReranker | None:
        """The chosen reranker, None for none; its model is not loaded before it is used.

        Raises:
            ConfigError: on a setting that is not allowed.
        """
        check_choice("reranker", self.reranker, RERANKERS)
        if self.reranker == "none":
            return None
        if not self.reranker_model.strip():
            raise ConfigError(f"reranker {self.reranker} needs a model: the folder or hub name of a cross-encoder")
        return TopRerankStage.cross_encoder(self.reranker_model.strip()).reranker

    def rerank_stage(self, reranker: BaseReranker | None, chunks: Sequence[ContextChunk]) -> BaseRerankStage | None:
        """What the ReRanker stage runs.

        Args:
            reranker: the reranker that :meth:`make_reranker` made, given so that a loaded model can be kept.
            chunks: every chunk that may become a candidate, those of turns included.

        Raises:
            ConfigError: on a budget that is not allowed.
        """
        if reranker is None:
            return None
        return (
            TopRerankStage(reranker)
            if self.reranker == "cross_encoder"
            else _budgeted(reranker, chunks, self.budget_docs)
        )


def limit_names() -> tuple[str, ...]:
    """The limits as the configuration spells them, N-constants first."""
    return tuple(name.upper() for name in Limits.model_fields)


def parse_limit(text: str) -> tuple[str, int | float]:
    """``N1_RETR_MAX_CANDIDATES=50`` as name and number.

    Raises:
        ConfigError: if the text has another form, or names no limit.
    """
    name, _, value = text.partition("=")
    try:
        number = float(value)
        return name.strip(), int(value) if number.is_integer() and "." not in value else number
    except (ValueError, OverflowError):
        raise ConfigError(f"limit {text!r}: expected NAME=NUMBER, e.g. N1_RETR_MAX_CANDIDATES=50") from None


def _check_finite(name: str, value: float) -> None:
    if not math.isfinite(value):
        raise ConfigError(f"limit {name}={value}: allowed is a finite number")


def _budgeted(reranker: BaseReranker, chunks: Sequence[ContextChunk], docs: int) -> BaseRerankStage:
    """The budgeted rerank stage of the page: a posterior over the candidates, stopped once the top is settled."""
    from ragtune.acquisitions.upper_confidence import UpperConfidenceAcquisition
    from ragtune.core.request.budget import CostBudget
    from ragtune.data.corpus import Corpus, Document
    from ragtune.embedders.tfidf import TfidfEmbedder
    from ragtune.estimators.uncertainty import UncertaintyEstimator
    from ragtune.schedulers.settled import SettledScheduler
    from ragtune.superprompt.reranking.budgeted import BudgetedRerankStage

    limit = check_count("reranker budget", docs, low=1)
    documents = [Document(id=chunk.id, text=chunk.snippet) for chunk in chunks]
    # Without a chunk there is no candidate and nothing is ever reranked, but a corpus has at least one document.
    corpus = Corpus(documents or [Document(id="none", text="")])
    return BudgetedRerankStage(
        UncertaintyEstimator(corpus, TfidfEmbedder),
        SettledScheduler(acquisition=UpperConfidenceAcquisition()),
        reranker,
        CostBudget.unlimited().model_copy(update={"max_reranker_docs": limit}),
        ordering="posterior",
    )
