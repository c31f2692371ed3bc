"""Fills score tables with a live reranker."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.config.names import leaf
from experiments.config.progress import Progress
from experiments.replay.build import Session, build_session
from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import FREE, CostObject


def write_score_table(
    config: Mapping[str, Any], file: Path, pairs: str, progress: Progress, model: str | None = None
) -> dict[str, int]:
    """Score query-document pairs of a dataset, and write them as a score table with its manifest.

    Args:
        config: resolved configuration with a live reranker.
        file: a Parquet path.
        pairs: ``pool`` (what the retriever finds) or ``all`` (every document for every query).
        progress: called after every query with the number of queries done.
        model: name of the model in the manifest; None takes the configured name.

    Returns:
        The number of ``queries`` and of ``pairs``.

    Raises:
        ConfigError: if the configured reranker is itself a replay.
    """
    session = build_session({**config, "reranker": _loaded_first(config["reranker"])})
    reranker = session.rerankers["default"]
    if reranker.is_recorded:
        raise ConfigError("reranker=replay scores nothing: choose a live one, e.g. reranker=cross_encoder")
    rows: list[tuple[str, str, float]] = []
    total, ms_per_call = FREE, 0.0
    reranker.prepare()
    for done, (query_id, query) in enumerate(session.dataset.queries.items(), start=1):
        context = RAGtuneContext(query=query, query_id=query_id, tracker=CostBudget.unlimited().create_tracker())
        items = _items(session, context, pairs, config["retrieval"]["original_query_depth"])
        scores, cost = _scored(reranker, items, context)
        total, ms_per_call = total + cost, reranker.expected_cost([], context).latency_ms
        rows += [(query_id, doc_id, score) for doc_id, score in scores.items()]
        progress(done, len(session.dataset.queries))
    _write(file, rows)
    ms_per_call = min(ms_per_call, total.latency_ms / len(session.dataset.queries))
    in_calls = ms_per_call * len(session.dataset.queries)
    manifest = {
        "scale": "identity",
        "model": model or _describe(config["reranker"]),
        "text_hash": session.dataset.corpus.digest,
        "tokens_per_doc": round(total.tokens / len(rows), 1),
        "ms_per_doc": round((total.latency_ms - in_calls) / len(rows), 2),
        "ms_per_call": round(ms_per_call, 2),
        "usd_per_doc": total.usd / len(rows) if total.usd or "usd" not in reranker.unpriced else None,
        "pairs": len(rows),
        "dataset": session.dataset.name,
        "source": "scripts/score_table.py",
    }
    file.with_name(file.name + ".manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return {"queries": len(session.dataset.queries), "pairs": len(rows)}


def _loaded_first(reranker: Mapping[str, Any]) -> dict[str, Any]:
    """With the model loaded whatever the cache holds, so that the time of a call is measured."""
    return {name: name == "preload" or value for name, value in reranker.items()}


def _scored(
    reranker: BaseReranker, items: list[PoolItem], context: RAGtuneContext
) -> tuple[dict[str, float], CostObject]:
    """The scores, and what they cost when they were made, which may have been in an earlier run."""
    started = time.perf_counter()
    scores = reranker.rerank(items, context, "default")
    elapsed_ms = (time.perf_counter() - started) * 1000
    measured = reranker.expected_cost(items, context).model_copy(update={"latency_ms": elapsed_ms})
    return scores, context.meter.charged or measured


def _items(session: Session, context: RAGtuneContext, pairs: str, depth: int) -> list[PoolItem]:
    if pairs == "pool":
        found = session.controller.rounds.retriever.retrieve(context, depth)
    else:
        found = [session.dataset.corpus.scored(doc_id, 0.0) for doc_id in session.dataset.corpus.doc_ids]
    return [PoolItem.from_document(doc, rank, {}) for rank, doc in enumerate(found)]


def _write(file: Path, rows: list[tuple[str, str, float]]) -> None:
    import pandas as pd

    file.parent.mkdir(parents=True, exist_ok=True)
    table = pd.DataFrame(sorted(rows), columns=["query_id", "doc_id", "score"])
    table.to_parquet(file, index=False, compression="zstd")


def _describe(reranker: Mapping[str, Any]) -> str:
    model = reranker.get("model") or reranker.get("embedder", {}).get("model", "")
    return f"{leaf({'reranker': reranker}, 'reranker')}:{Path(str(model)).name if Path(str(model)).is_dir() else model}"
