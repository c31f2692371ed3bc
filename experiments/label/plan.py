"""Chooses the pairs of documents to judge, decides from their grades whether the reranker helps, and says so."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from experiments.config.compose import compose
from experiments.datasets.beir import read_qrels
from experiments.replay.build import session_for
from experiments.replay.records import records_of
from ragtune.core.errors import ConfigError, DatasetError
from ragtune.core.plain import count_of

_POLICY = ("estimator", "scheduler", "assembler", "budget")

DEPTH = 10

LEVEL = 0.9
"""Confidence at which a decision falls."""

LEAST, LEAST_DIFFERENT = 10, 5
"""Visited queries, and those whose pairs got different grades, below which nothing is said: the interval is one for
large samples."""

_ALPHA = 2.0 * (1.0 - LEVEL)
"""Both ends together: a decision is wrong beyond one of them only."""

_RHO = (-2.0 * math.log(_ALPHA) + math.log(-2.0 * math.log(_ALPHA) + 1.0)) / 50
"""Square of the tuning parameter: the interval is narrowest at 50 queries."""


@dataclass(frozen=True)
class LabelPair:
    """A document that the reranker moves up and one that it moves down, for the same query."""

    query_id: str
    up: str
    down: str
    weight: float  # mean of what the first gains and the second loses in discount, > 0

    @property
    def shown(self) -> tuple[str, str]:
        """Both documents in an order that does not say which one the reranker prefers."""
        return (self.up, self.down) if _draw(0, f"{self.query_id} {self.up}") % 2 else (self.down, self.up)


@dataclass(frozen=True)
class LabelPlan:
    """All queries in the order of their visits, and the pairs to judge: the first of each query, the second, ..."""

    queries: Sequence[str]
    pairs: Sequence[LabelPair]


def both_orders(config: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
    """Id of each query, its candidates in the first stage's order, and in the reranker's."""
    everything = compose(["experiment=fixed_depth", "budget=tight", "budget.max_reranker_docs=null"])
    session = session_for({**config, **{group: everything[group] for group in _POLICY}})
    if not all(reranker.facts.is_recorded for reranker in session.rerankers.values()):
        raise ConfigError("the scores must be recorded: reranker.scores=FILE")
    for record in records_of(session, session.dataset.query_ids, traced=False):
        yield record.query_id, record.states([0]).rankings()[0], record.ranking


def make_plan(rankings: Iterable[tuple[str, Sequence[str], Sequence[str]]], seed: int) -> LabelPlan:
    """Order all pairs of documents by what their judgments say (Carterette, Allan and Sitaraman, SIGIR 2006)."""
    pairs = {query_id: list(_pairs(query_id, first, second)) for query_id, first, second in rankings}
    queries = sorted(pairs, key=lambda query_id: (_draw(seed, query_id), query_id))
    rounds = max(map(len, pairs.values()), default=0)
    return LabelPlan(queries, [pairs[q][i] for i in range(rounds) for q in queries if i < len(pairs[q])])


def changes(first: Sequence[str], second: Sequence[str]) -> dict[str, float]:
    """What each document of either top gains in discount, 1 / log2(rank + 1), where the second order takes over."""
    gains = dict.fromkeys([*first[:DEPTH], *second[:DEPTH]], 0.0)
    for order, sign in ((first, -1.0), (second, 1.0)):
        for rank, doc_id in enumerate(order[:DEPTH], 1):
            gains[doc_id] += sign / math.log2(rank + 1)
    return gains


def _pairs(query_id: str, first: Sequence[str], second: Sequence[str]) -> Iterator[LabelPair]:
    gains = changes(first, second)
    ups = sorted((d for d in gains if gains[d] > 0.0), key=lambda d: (-gains[d], second.index(d)))
    downs = sorted((d for d in gains if gains[d] < 0.0), key=lambda d: (gains[d], first.index(d)))
    for up, down in zip(ups, downs, strict=False):
        yield LabelPair(query_id, up, down, (gains[up] - gains[down]) / 2.0)


def _draw(seed: int, text: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed} {text}".encode()).digest()[:8], "big")


class Decision(BaseModel):
    """What the judged pairs say."""

    model_config = ConfigDict(frozen=True)

    verdict: Literal["helps", "harms", "undecided"]
    confidence: float  # that the sign is right, in [0, 1]
    gain: float  # mean over visited queries; its sign is that of the difference in DCG@10
    low: float | None
    high: float | None
    queries: int
    pairs: int


def decide(plan: LabelPlan, grades: Mapping[tuple[str, str], int]) -> Decision:
    """Decide by a confidence sequence (Waudby-Smith et al., 2024), which allows to stop as soon as it excludes 0."""
    gains: dict[str, float] = {}
    pairs = 0
    for pair in plan.pairs:
        both = grades.get((pair.query_id, pair.up)), grades.get((pair.query_id, pair.down))
        if both[0] is not None and both[1] is not None:
            gain = pair.weight * (max(both[0], 0) - max(both[1], 0))
            gains[pair.query_id] = gains.get(pair.query_id, 0.0) + gain
            pairs += 1
    # The reranker changes nothing for a query without a pair that stands before the last visited one.
    paired = {pair.query_id for pair in plan.pairs}
    last = max((i for i, query_id in enumerate(plan.queries) if query_id in gains), default=-1)
    unchanged = sum(query_id not in paired for query_id in plan.queries[: last + 1])
    return conclude([*gains.values(), *[0.0] * unchanged], pairs)


def conclude(gains: Sequence[float], pairs: int) -> Decision:
    """The decision from the gain of each visited query."""
    n = len(gains)
    values = np.array(gains, dtype=float)
    mean = float(values.mean()) if n else 0.0
    spread = float(values.std(ddof=1)) if n > 1 else 0.0
    fixed: dict[str, Any] = {"gain": mean, "queries": n, "pairs": pairs}
    if n < LEAST or np.count_nonzero(values) < LEAST_DIFFERENT or spread == 0.0:
        return Decision(verdict="undecided", confidence=0.0, low=None, high=None, **fixed)
    scaled = n * _RHO
    width = math.sqrt(2.0 * (scaled + 1.0) / (n * scaled) * math.log(math.sqrt(scaled + 1.0) / _ALPHA))
    # The alpha at which the interval ends at 0.
    p_value = min(1.0, math.sqrt(scaled + 1.0) * math.exp(-n * (mean / spread) ** 2 * scaled / (2.0 * (scaled + 1.0))))
    confidence = 1.0 - p_value / 2.0
    verdict: Literal["helps", "harms", "undecided"] = "undecided"
    if confidence >= LEVEL:
        verdict = "helps" if mean > 0.0 else "harms"
    return Decision(
        verdict=verdict, confidence=confidence, low=mean - spread * width, high=mean + spread * width, **fixed
    )


FILE, QRELS = "decision.json", "qrels.tsv"

_OF_THE_ORDERS = ("retriever", "signal", "fusion", "retrieval", "reranker")

SCOPE = (
    "These qrels hold the documents that the two orders disagree about most, and few others: they say which order is "
    "better. They are no ground for nDCG, recall or a comparison with other rankings."
)


class Verdict(BaseModel):
    """The content of ``decision.json``."""

    model_config = ConfigDict(frozen=True)

    format: Literal["ragtune-label/1"] = "ragtune-label/1"
    orders: str
    dataset: str
    labels: int
    by_models: dict[str, int]
    level: float = LEVEL
    decision: Decision
    scope: str = SCOPE

    @property
    def text(self) -> str:
        found = self.decision
        known = f"{count_of(self.labels, 'labels')} on {count_of(found.queries, 'queries')}"
        if self.by_models:
            models = ", ".join(f"{count} by the model {name}" for name, count in self.by_models.items())
            known += f" ({models})"
        sure = f"confidence {100.0 * found.confidence:.0f}%"
        if found.verdict != "undecided":
            return f"The reranker {found.verdict}: {known}, {sure}."
        if found.confidence <= 0.5:  # no better than a coin
            return f"The labels do not decide yet whether the reranker helps: {known}."
        leans = "helps" if found.gain > 0.0 else "harms"
        return f"The labels do not decide yet: so far the reranker {leans}, {sure}. There are {known}."


def orders_of(config: Mapping[str, Any]) -> str:
    """Digest of the options that make both orders."""
    options = {"dataset": config["dataset"].get("path"), **{name: config[name] for name in _OF_THE_ORDERS}}
    return hashlib.sha256(json.dumps(options, sort_keys=True).encode()).hexdigest()[:16]


def verdict_of(config: Mapping[str, Any]) -> Verdict | None:
    """What the labels say that a configuration takes as judgments; None where it takes other judgments or none."""
    qrels = config["dataset"].get("qrels")
    file = Path(qrels).with_name(FILE) if qrels and Path(qrels).name == QRELS else None
    if file is None or not file.is_file():
        return None
    try:
        verdict = Verdict.model_validate_json(file.read_bytes())
    except ValidationError:
        raise DatasetError(f"{str(file)!r} is damaged: repeat ragtune label with --out {file.parent}") from None
    if verdict.orders != orders_of(config):
        raise ConfigError(
            f"the labels in {str(file.parent)!r} are about another first stage or reranker: repeat ragtune label with "
            "the options of this command, or give advise the options that the labels were made with"
        )
    judged = sum(map(len, read_qrels(Path(qrels)).values()))
    if judged != verdict.labels:
        raise ConfigError(
            f"{qrels!r} holds {judged} judgments and {FILE} beside it knows {verdict.labels}: rename the file to use "
            "it as judgments of your own, or repeat ragtune label"
        )
    return verdict
