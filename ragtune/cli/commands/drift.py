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

import numpy as np

from ragtune.core.errors import ConfigError, InputError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.plain import quoted
from ragtune.core.policy.scaling import rank_correlation
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.statistics import gain_kept, overlap
from ragtune.rerankers.models.cross_encoder import CrossEncoderReranker
from ragtune.services.querylog import sample_log, texts_of

_REFERENCE, _SEED = "fp32", 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--model", required=True, help="cross-encoder: folder or hub name")
    parser.add_argument("--log", metavar="FILE", type=Path, required=True, help="requests in JSON lines")
    parser.add_argument("--dtype", metavar="TYPE", nargs="+", default=["auto"], help="bfloat16, int8 or auto")
    parser.add_argument("--max-length", metavar="N", type=int, default=512, help="tokens of query and document")
    parser.add_argument("--max-docs", metavar="N", type=int, default=2_000, help="documents of the sampled requests")


def run(arguments: argparse.Namespace) -> int:
    """Score the sample in every type, and print the table."""
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
    found: dict[str, list[list[float]]] = {dtype: [] for dtype in rerankers}
    seconds = dict.fromkeys(rerankers, 0.0)
    for reranker in rerankers.values():
        reranker.prepare()
    for query, texts, _ in sample:
        for dtype, reranker in rerankers.items():
            begun = time.perf_counter()
            found[dtype].append(_score(reranker, query, texts))
            seconds[dtype] += time.perf_counter() - begun
    documents = sum(len(texts) for _, texts, _ in sample)
    sys.stdout.write(f"{arguments.model}: {len(sample):,} requests, {documents:,} documents\n")
    columns = {
        dtype: {"seconds / 100 documents": f"{100.0 * seconds[dtype] / documents:.2f}"}
        | _figures(found[_REFERENCE], scores, grades)
        for dtype, scores in found.items()
    }
    rows = {"": [*columns]} | {name: [column[name] for column in columns.values()] for name in columns[_REFERENCE]}
    width = max(map(len, rows)) + 2
    for name, cells in rows.items():
        sys.stdout.write(f"{name:<{width}}{''.join(f'{cell:>10}' for cell in cells)}".rstrip() + "\n")
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
    items = [PoolItem(str(at), text) for at, text in enumerate(texts)]
    context = RAGtuneContext(query=query, query_id="", tracker=CostBudget.unlimited().create_tracker())
    return [*reranker.rerank(items, context, "default").values()]


def _figures(
    reference: list[list[float]], scores: list[list[float]], grades: list[list[float] | None]
) -> dict[str, str]:
    """The cells of one type's column below its seconds; those of changes are empty for the reference."""
    both = [(np.array(first), np.array(own)) for first, own in zip(reference, scores, strict=True)]
    orders = [[np.argsort(-one, kind="stable").tolist() for one in pair] for pair in both]
    correlations = [rank_correlation(*pair) for pair in both if all(map(np.ptp, pair))]
    found = {
        "rank correlation": f"{np.mean(correlations):.4f}" if correlations else "-",
        "top-10 overlap": f"{np.mean([overlap(*pair) for pair in orders]):.3f}",
        "largest score change": f"{max(abs(first - own).max() for first, own in both):.4f}",
    }
    if scores is reference:
        found = dict.fromkeys(found, "")
    kept = [gain_kept(own, dict(enumerate(given))) for (_, own), given in zip(orders, grades, strict=True) if given]
    return found | ({f"nDCG@10, {len(kept):,} requests": f"{np.mean(kept):.4f}"} if kept else {})
