"""Query logs: requests of a rerank API in JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from ragtune.core.arguments import check_count
from ragtune.core.errors import InputError
from ragtune.services.payloads import RerankQuery


def sample_log(log: Path, max_docs: int, seed: int) -> list[tuple[int, RerankQuery]]:
    """Draw requests with candidates at random until one does not fit; each with its place in the log, from 0."""
    check_count("--max-docs", max_docs, low=1)
    requests = list(_requests(log))
    taken, room = [], max_docs
    for at in np.random.default_rng(seed).permutation(len(requests)).tolist():
        if len(requests[at].documents) > room:
            break
        room -= len(requests[at].documents)
        taken.append(at)
    if not taken:
        raise InputError(f"{log}: no request fits into --max-docs {max_docs}")
    return [(at, requests[at]) for at in sorted(taken)]


def _requests(log: Path) -> Iterator[RerankQuery]:
    try:
        lines = log.read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"{log}: cannot be read ({error.strerror})") from None
    for number, line in enumerate(filter(None, lines), start=1):
        try:
            request = RerankQuery.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            where = "".join(f"{part}: " for part in first["loc"])
            raise InputError(f"{log}, line {number}: {where}{first['msg']}; allowed is a body of /rerank") from None
        if request.documents:
            yield request


def texts_of(request: RerankQuery, name: str) -> list[str]:
    """The texts of a request's documents; ``name`` is what an error calls the request."""
    texts = [one if isinstance(one, str) else one.get("text") for one in request.documents]
    found = [text for text in texts if isinstance(text, str)]
    if len(found) < len(texts):
        raise InputError(f"request {name}: a document has no text: allowed are texts, or objects with 'text'")
    return found
