"""Query logs as collections: a sample of the requests of a rerank API, written as files that a replay reads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ragtune.services.payloads import RerankQuery
from ragtune.services.querylog import sample_log, texts_of

FOLDER = "log"


def write_sample(log: Path, folder: Path, max_docs: int, seed: int) -> list[str]:
    """Sample requests, write them below ``folder``, and return the overrides of ``ragtune run`` that replay them."""
    taken = sample_log(log, max_docs, seed)
    return _write([(str(at + 1), request) for at, request in taken], folder)


def _write(requests: Sequence[tuple[str, RerankQuery]], folder: Path) -> list[str]:
    """Documents are named by their texts, so one that several requests have is one document."""
    folder.mkdir(parents=True, exist_ok=True)
    corpus: dict[str, str] = {}
    runs: dict[str, list[str]] = {}
    for query_id, request in requests:
        ids = []
        for text in texts_of(request, query_id):
            ids.append(hashlib.sha256(text.encode()).hexdigest()[:20])
            corpus[ids[-1]] = text
        for source, scores in _sources(request).items():
            found = {one: score for one, score in zip(ids, scores, strict=True) if score is not None}
            ranked = sorted(found, key=lambda one: -found[one])
            runs.setdefault(source, []).extend(
                f"{query_id} Q0 {one} {rank} {found[one]!r} {source}" for rank, one in enumerate(ranked, start=1)
            )
    _lines(folder / "corpus.jsonl", ({"_id": one, "title": "", "text": text} for one, text in corpus.items()))
    _lines(folder / "queries.jsonl", ({"_id": query_id, "text": request.query} for query_id, request in requests))
    paths = []
    for at, rows in enumerate(runs.values(), start=1):
        paths.append(folder / f"first_stage_{at}.run")
        paths[-1].write_text("\n".join(rows) + "\n", encoding="utf-8")
    return [
        "dataset=beir",
        f"dataset.path='{folder}'",
        "dataset.split=null",
        "retriever=runs",
        f"retriever.paths={[str(path) for path in paths]}",
        f"retrieval.original_query_depth={max(len(request.documents) for _, request in requests)}",
    ]


def _sources(request: RerankQuery) -> dict[str, Sequence[float | None]]:
    """The scores of each first stage; without any, the order of the documents."""
    if request.scores is None:
        return {"order": [float(-at) for at in range(len(request.documents))]}
    named: dict[str, Any] = request.scores if isinstance(request.scores, dict) else {"scores": request.scores}
    return named


def _lines(file: Path, rows: Iterator[dict[str, str]]) -> None:
    with file.open("w", encoding="utf-8") as out:
        out.writelines(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
