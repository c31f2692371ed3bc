"""What the labels decide, as the file that ``ragtune advise`` reads and as sentences."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from experiments.datasets.beir import read_qrels
from experiments.label.plan import LEVEL, Decision
from ragtune.core.errors import ConfigError, DatasetError
from ragtune.core.plain import count_of

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
