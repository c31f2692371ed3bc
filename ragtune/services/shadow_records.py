"""What shadowed requests came to: one record each, and what many say together."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from ragtune.core.errors import InputError
from ragtune.core.types import CostObject

DEPTH = 10
"""How deep rankings are compared."""


class ShadowRecord(BaseModel):
    """One request, as it was answered and as it would have been without a budget.

    Attributes:
        at: when it was measured, in UTC.
        model: the server's model.
        policy: how documents were chosen.
        budget: limits of the request, by unit.
        documents: candidates.
        reranked: how many of them the model read for the answer.
        overlap: share of the full top 10 that the answer's top 10 has.
        rbo: rank-biased overlap of both (p = 0.9).
        quality: nDCG@10 of the answer, where the model's own scores are the gains.
        spent: what the answer was charged.
        full: what the model was charged for reading everything.
        served_order: the first 10 of the answer, by their index in the request.
        full_order: the first 10 that reranking everything would have answered with.
        query: the query, only where the operator asked for it.
        texts: documents of both lists by index, only where the operator asked for them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: str
    model: str
    policy: str
    budget: Mapping[str, float]
    documents: NonNegativeInt
    reranked: NonNegativeInt
    overlap: float = Field(ge=0.0, le=1.0)
    rbo: float = Field(ge=0.0, le=1.0)
    quality: float = Field(ge=0.0, le=1.0)
    spent: CostObject
    full: CostObject
    served_order: tuple[NonNegativeInt, ...]
    full_order: tuple[NonNegativeInt, ...]
    query: str | None = None
    texts: Mapping[int, str] | None = None


class Interval(NamedTuple):
    """A mean over requests, and the 95% interval of it by Student's t; no bounds below two requests."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float], low: float = -math.inf, high: float = math.inf) -> Interval:
    """The mean of values that lie between low and high, and its interval, cut there."""
    from scipy.special import stdtrit

    count = len(values)
    mean = math.fsum(values) / count if count else math.nan
    if count < 2:
        return Interval(mean, math.nan, math.nan)
    spread = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    half = float(stdtrit(count - 1, 0.975)) * math.sqrt(spread / count)
    return Interval(mean, max(low, mean - half), min(high, mean + half))


FIGURES = {
    "overlap": "Share of the full top 10 that the answer's top 10 has.",
    "rbo": "Rank-biased overlap (p = 0.9) of the answer's top 10 and the full one.",
    "quality_loss": "1 - nDCG@10 of the answer, where the model's own scores are the gains.",
    "saved_docs": "Documents a request that the model did not read.",
    "saved_tokens": "Tokens a request that the model did not read.",
    "saved_ms": "Milliseconds of the model a request; less than 0 where many small calls took longer.",
    "saved_usd": "Dollars a request; less than 0 where many small calls cost more than one.",
}
"""What :func:`figures` tells, in words."""


def figures(records: Sequence[ShadowRecord]) -> dict[str, Interval]:
    """What the records say: agreement, estimated loss, and what a request saves."""
    return {
        "overlap": interval([one.overlap for one in records], 0.0, 1.0),
        "rbo": interval([one.rbo for one in records], 0.0, 1.0),
        "quality_loss": interval([1.0 - one.quality for one in records], 0.0, 1.0),
        "saved_docs": interval([one.full.docs - one.spent.docs for one in records]),
        "saved_tokens": interval([one.full.tokens - one.spent.tokens for one in records]),
        "saved_ms": interval([one.full.latency_ms - one.spent.latency_ms for one in records]),
        "saved_usd": interval([one.full.usd - one.spent.usd for one in records]),
    }


def grouped(records: Sequence[ShadowRecord]) -> list[list[ShadowRecord]]:
    """The records by model, policy and budget, since no mean over several would say anything of one."""
    groups: dict[tuple[object, ...], list[ShadowRecord]] = {}
    for one in records:
        groups.setdefault((one.model, one.policy, *sorted(one.budget.items())), []).append(one)
    return list(groups.values())


class Kept(NamedTuple):
    """The records of a file, and how many of its lines a crash cut short."""

    records: list[ShadowRecord]
    cut: int


def read_records(file: Path) -> Kept:
    """The records of a file of JSON lines.

    Raises:
        InputError: if the file cannot be read, holds no record, or a line says something else.
    """
    records, cut = [], 0
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from None
    for number, line in enumerate(lines, start=1):
        try:
            fields = json.loads(line)
        except ValueError:  # in the middle of a character, too
            cut += bool(line)
            continue
        try:
            records.append(ShadowRecord.model_validate(fields))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "it"
            raise InputError(f"{file}:{number} is no record of a shadowed request: {where}: {first['msg']}") from None
    if not records:
        raise InputError(f"{file}: holds no record of a shadowed request; ragtune serve --shadow writes them")
    return Kept(records, cut)
