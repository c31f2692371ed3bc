"""Measure what a faster number type changes in a cross-encoder's scores, on your own requests.

    ragtune drift --model MODEL --log queries.jsonl --dtype bfloat16 int8

The log has a request of the rerank API a line: JSON with query, documents and, if there are any, grades (a number a
document, 0 is not relevant). Every document of the sample is scored in fp32 and in each --dtype, in turns, on the CPU
of this machine. The table has, means over requests unless said:

    seconds / 100 documents    by the clock, without loading
    rank correlation           Spearman's, of all documents
    top-10 overlap             share of the first 10 documents that stay among them
    largest score change       of any document; scores lie in [0, 1]
    nDCG@10                    against the best order of these documents, where one has a grade above 0
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ragtune.core.errors import ConfigError, InputError
from ragtune.core.plain import quoted

if TYPE_CHECKING:
    from ragtune.core.interfaces import BaseReranker

_REFERENCE, _SEED = "fp32", 0


class _Scored(NamedTuple):
    """The scores of each request's documents, and the seconds that they took."""

    scores: list[list[float]]
    seconds: list[float]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--model", required=True, help="cross-encoder: folder or hub name")
    parser.add_argument("--log", metavar="FILE", type=Path, required=True, help="requests in JSON lines")
    parser.add_argument("--dtype", metavar="TYPE", nargs="+", default=["auto"], help="bfloat16, int8 or auto")
    parser.add_argument("--max-length", metavar="N", type=int, default=512, help="tokens of query and document")
    parser.add_argument("--max-docs", metavar="N", type=int, default=2_000, help="documents of the sampled requests")


def run(arguments: argparse.Namespace) -> int:
    """Score the sample in every type, and print the table."""
    from ragtune.rerankers.models.cross_encoder import CrossEncoderReranker
    from ragtune.services.querylog import sample_log, texts_of

    made = [
        CrossEncoderReranker(arguments.model, arguments.max_length, device="cpu", cache_dir=None, dtype=dtype)
        for dtype in (_REFERENCE, *arguments.dtype)
    ]
    rerankers = {reranker.dtype: reranker for reranker in made}
    if len(rerankers) == 1:
        raise ConfigError(f"--dtype {' '.join(arguments.dtype)}: means fp32 here; allowed are bfloat16, int8")
    sample = [
        (request.query, texts_of(request, str(at + 1)), (str(at + 1), (request.model_extra or {}).get("grades")))
        for at, request in sample_log(arguments.log, arguments.max_docs, _SEED)
    ]
    grades = [_checked(*given, len(texts)) for _, texts, given in sample]
    found = {dtype: _Scored([], []) for dtype in rerankers}
    for reranker in rerankers.values():
        reranker.prepare()
    for query, texts, _ in sample:
        for dtype, reranker in rerankers.items():
            begun = time.perf_counter()
            found[dtype].scores.append(_score(reranker, query, texts))
            found[dtype].seconds.append(time.perf_counter() - begun)
    documents = sum(len(texts) for _, texts, _ in sample)
    sys.stdout.write(f"{arguments.model}: {len(sample):,} requests, {documents:,} documents\n")
    sys.stdout.writelines(f"{line}\n" for line in _table(found, documents, grades))
    return 0


def _checked(name: str, given: object, documents: int) -> list[float] | None:
    """The grades of a request; None where it has none above 0."""
    if given is None:
        return None
    numbers = given if isinstance(given, list) else []
    if len(numbers) != documents or not all(type(one) in (int, float) and 0 <= one < math.inf for one in numbers):
        raise InputError(f"request {name}: grades={quoted(given)}: allowed are {documents} numbers from 0 on")
    return numbers if max(numbers) > 0 else None


def _score(reranker: BaseReranker, query: str, texts: Sequence[str]) -> list[float]:
    from ragtune.core.pool.items import PoolItem
    from ragtune.core.request.budget import CostBudget
    from ragtune.core.request.context import RAGtuneContext

    items = [PoolItem(str(at), text) for at, text in enumerate(texts)]
    context = RAGtuneContext(query=query, query_id="", tracker=CostBudget.unlimited().create_tracker())
    return [*reranker.rerank(items, context, "default").values()]


def _table(found: dict[str, _Scored], documents: int, grades: list[list[float] | None]) -> list[str]:
    from ragtune.core.statistics import gain_kept, overlap

    first = found[_REFERENCE].scores
    rankings = {dtype: [_ranked(scores) for scores in scored.scores] for dtype, scored in found.items()}
    rows: dict[str, list[str]] = {
        "": [*found],
        "seconds / 100 documents": [f"{100.0 * sum(scored.seconds) / documents:.2f}" for scored in found.values()],
        "rank correlation": [""],
        "top-10 overlap": [""],
        "largest score change": [""],
    }
    for dtype in [dtype for dtype in found if dtype != _REFERENCE]:
        scores = found[dtype].scores
        tops = [overlap(*both) for both in zip(rankings[_REFERENCE], rankings[dtype], strict=True)]
        changes = [abs(a - b) for pair in zip(first, scores, strict=True) for a, b in zip(*pair, strict=True)]
        rows["rank correlation"].append(_correlation(first, scores))
        rows["top-10 overlap"].append(f"{sum(tops) / len(tops):.3f}")
        rows["largest score change"].append(f"{max(changes):.4f}")
    judged = [(at, dict(enumerate(given))) for at, given in enumerate(grades) if given]
    if judged:
        means = [
            sum(gain_kept(ranking[at], gains) for at, gains in judged) / len(judged) for ranking in rankings.values()
        ]
        rows[f"nDCG@10, {len(judged):,} requests"] = [f"{mean:.4f}" for mean in means]
    width = max(map(len, rows)) + 2
    return [f"{name:<{width}}{''.join(f'{cell:>10}' for cell in cells)}".rstrip() for name, cells in rows.items()]


def _ranked(scores: Sequence[float]) -> list[int]:
    return sorted(range(len(scores)), key=lambda at: -scores[at])


def _correlation(first: list[list[float]], other: list[list[float]]) -> str:
    """The mean over requests whose documents do not all have one score."""
    import numpy as np

    from ragtune.core.policy.scaling import rank_correlation

    pairs = [pair for pair in zip(first, other, strict=True) if all(len(set(scores)) > 1 for scores in pair)]
    return f"{sum(rank_correlation(*map(np.array, pair)) for pair in pairs) / len(pairs):.4f}" if pairs else "-"
