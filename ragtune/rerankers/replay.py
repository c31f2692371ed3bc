"""Replay of recorded scores."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ragtune.core.arguments import check_count, check_number
from ragtune.core.component import RerankerFacts, declare_files
from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem, ids_of, lengths_of
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.tokens import count_tokens
from ragtune.core.types import CostObject
from ragtune.core.units import search_units
from ragtune.data.caches.diskcache import Stamp
from ragtune.data.runs.runfile import version_of
from ragtune.rerankers.models.architecture import Architecture
from ragtune.rerankers.score_table import ScoreTable


@declare_files(reads=["scores"])
class TableReranker(BaseReranker):
    """Base of rerankers that read a score table."""

    def __init__(self, scores: str, scale: str | None, ties: str = "first_stage") -> None:
        self.table = load_table(str(scores), scale, ties)

    @property
    def doubts(self) -> Mapping[str, int]:
        return self.table.doubts

    def recorded_queries(self) -> Mapping[str, Collection[str]]:
        return self.table.recorded_queries()


class ReplayReranker(TableReranker):
    """Looks scores up in a table (rule C2), at the prices of the arguments, else of its manifest, else in tokens."""

    def __init__(
        self,
        scores: str,
        scale: str | None = None,
        tokens_per_doc: float | None = None,
        ms_per_doc: float | None = None,
        ms_per_call: float | None = None,
        usd_per_doc: float | None = None,
        architecture: str | Mapping[str, Any] | None = None,
        docs_per_search_unit: int | None = None,
        usd_per_search_unit: float | None = None,
        ties: str = "first_stage",
    ) -> None:
        given: dict[str, Any] = {
            "tokens_per_doc": tokens_per_doc,
            "ms_per_doc": ms_per_doc,
            "ms_per_call": ms_per_call,
            "usd_per_doc": usd_per_doc,
            "usd_per_search_unit": usd_per_search_unit,
        }
        for name, value in given.items():
            if value is not None:
                check_number(name, value, low=0.0)
        if docs_per_search_unit is not None:
            check_count("docs_per_search_unit", docs_per_search_unit, low=1)
        given |= {"docs_per_search_unit": docs_per_search_unit, "architecture": Architecture.parse(architecture)}
        super().__init__(scores, scale, ties)
        told = self.table.manifest.model_copy(update={k: value for k, value in given.items() if value is not None})
        self.tokens_per_doc, self.architecture = told.tokens_per_doc, told.architecture
        self.ms_per_doc, self.ms_per_call = told.ms_per_doc or 0.0, told.ms_per_call or 0.0
        self.usd_per_doc, self.usd_per_search_unit = told.usd_per_doc or 0.0, told.usd_per_search_unit or 0.0
        self.docs_per_search_unit = told.docs_per_search_unit
        if self.usd_per_search_unit and self.docs_per_search_unit is None:
            raise ConfigError(
                f"usd_per_search_unit={self.usd_per_search_unit:g}: name docs_per_search_unit too, 100 at most services"
            )
        unpriced = {
            "latency_ms": told.ms_per_doc is None and told.ms_per_call is None,
            "usd": told.usd_per_doc is None and told.usd_per_search_unit is None,
            "flops": self.architecture is None,
            "search_units": self.docs_per_search_unit is None,
            "joules": True,
        }
        self.facts = RerankerFacts(
            is_recorded=True,
            unpriced=frozenset(unit for unit, is_unknown in unpriced.items() if is_unknown),
            can_score=self.table.has,
        )

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        return self.table.scores(context.query_id, ids_of(items))

    def expected_cost(self, items: Sequence[PoolItem], context: RAGtuneContext) -> CostObject:
        query, lengths = context.query, lengths_of(items)
        docs = len(lengths)
        if self.tokens_per_doc is None:
            own = _count_cached(query)
            tokens = sum(lengths) + docs * own
        else:
            own, lengths = round(self.tokens_per_doc), [0] * docs
            tokens = round(self.tokens_per_doc * docs)
        units = search_units(docs, self.docs_per_search_unit) if self.docs_per_search_unit else 0
        size = self.architecture
        return _cost(
            tokens,
            docs,
            self.ms_per_call + self.ms_per_doc * docs,
            self.usd_per_doc * docs + self.usd_per_search_unit * units,
            sum(size.flops(own + length) for length in lengths) if size else 0.0,
            units,
        )


@lru_cache(maxsize=4096)
def _cost(tokens: int, docs: int, latency_ms: float, usd: float, flops: float, search_units: int) -> CostObject:
    """A call's cost; most costs recur, since batches of one size differ in little but their tokens."""
    return CostObject(
        tokens=tokens, docs=docs, calls=1, latency_ms=latency_ms, usd=usd, flops=flops, search_units=search_units
    )


_count_cached = lru_cache(maxsize=4096)(count_tokens)


def load_table(path: str, scale: str | None, ties: str = "first_stage") -> ScoreTable:
    """Return the table, read once per process and version of the file, because a sweep needs it many times."""
    file = Path(path)
    return _load_version(path, scale, ties, version_of(file) if file.exists() else None)


@lru_cache(maxsize=8)
def _load_version(path: str, scale: str | None, ties: str, version: tuple[Stamp, ...] | None) -> ScoreTable:
    return ScoreTable(path, scale, ties)
