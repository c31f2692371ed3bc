"""Requests and answers of rerank servers: one small description per dialect.

Sources: cohere-python (src/cohere/v2/client.py); vLLM (entrypoints/pooling/score/protocol.py), whose shape is Jina's,
as is that of llama.cpp and LocalAI; text-embeddings-inference and Infinity (their OpenAPI documents); Voyage's API
reference and its TypeScript SDK.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ragtune.core.errors import ConfigError
from ragtune.core.plain import quoted, well_formed
from ragtune.llm.credentials import check_base_url
from ragtune.llm.wire import server_message
from ragtune.rerankers.scale import ScoreScale

ANY_KEY = "RERANK_API_KEY"
"""Variable of the key for all servers but the providers' own services, so no provider's key goes elsewhere."""

_MOST = 10_000_000  # tokens or search units: a greater figure is a mistake
_NUMERAL = re.compile(r"[+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,3})?", re.ASCII)
_BLANK = "."  # several servers refuse a whole call that holds an empty text


@dataclass(frozen=True)
class CallResults:
    """The results of a call."""

    scores: Mapping[int, float]
    problems: Sequence[str] = ()
    tokens: int | None = None
    search_units: float | None = None


@dataclass(frozen=True)
class HttpDialect:
    """One form of requests and answers."""

    path: str
    service: str | None = None
    key_env: str = ANY_KEY
    texts: str = "documents"
    limit: str | None = "top_n"
    has_model: bool = True
    fixed: Mapping[str, Any] = field(default_factory=dict)
    scale: ScoreScale = ScoreScale.IDENTITY
    results: str | None = "results"
    score: str = "relevance_score"
    batch_size: int = 1000
    call_tokens: int | None = None

    def body(self, query: str, texts: Sequence[str], model: str | None) -> dict[str, Any]:
        """Return the request in JSON, which asks for the scores of all documents."""
        body: dict[str, Any] = {} if model is None or not self.has_model else {"model": model}
        body |= {
            "query": well_formed(query),
            self.texts: [well_formed(text) if text.strip() else _BLANK for text in texts],
        }
        if self.limit is not None:
            body[self.limit] = len(texts)
        return body | dict(self.fixed)

    def read(self, reply: Any, count: int) -> CallResults:
        """Read the answer to a call with ``count`` documents; a bad result costs its document only."""
        whole = reply if isinstance(reply, dict) else {}
        rows = reply if self.results is None else whole.get(self.results)
        if not isinstance(rows, list):
            wanted = "a list of results" if self.results is None else f"a list {self.results!r} of results"
            raise ValueError(f"{wanted} is missing")
        if not rows and (said := server_message(whole)):
            raise ValueError(f"no results; the server says {said!r}")
        scores: dict[int, float] = {}
        torn: set[int] = set()
        problems = []
        for row in rows:
            said_index, said_score = (row.get("index"), row.get(self.score)) if isinstance(row, dict) else (None, None)
            place, score = _number(said_index), _number(said_score)
            if place is None or not place.is_integer() or not 0 <= place < count:
                problems.append(f"index {quoted(said_index)} of {count} documents")
                continue
            index = int(place)
            if score is None:
                problems.append(f"score {quoted(said_score)} of document {index}")
            elif row.get("estimated") is True:  # by RAGtune's own server, under a budget
                if "budget" not in self.fixed:
                    raise ValueError("the results have estimates in place of scores: dialect=ragtune asks for scores")
                problems.append(f"document {index} has an estimate, but no score")
            elif scores.setdefault(index, score) != score:
                problems.append(f"two scores, {scores[index]!r} and {score!r}, of document {index}")
                torn.add(index)
        kept = {index: score for index, score in scores.items() if index not in torn}
        return CallResults(kept, problems, *_read_bill(reply))


DIALECTS: Mapping[str, HttpDialect] = {
    "cohere": HttpDialect("v2/rerank", "https://api.cohere.com", "CO_API_KEY"),
    "jina": HttpDialect("v1/rerank", "https://api.jina.ai", "JINA_API_KEY", fixed={"return_documents": False}),
    "vllm": HttpDialect("rerank"),
    "tei": HttpDialect(
        "rerank",
        texts="texts",
        limit=None,
        has_model=False,
        fixed={"truncate": True, "raw_scores": True},
        scale=ScoreScale.LOGIT,
        results=None,
        score="score",
        batch_size=32,
    ),
    "infinity": HttpDialect("rerank", fixed={"return_documents": False, "raw_scores": True}, scale=ScoreScale.LOGIT),
    "ragtune": HttpDialect("v2/rerank", fixed={"budget": dict.fromkeys(("docs", "calls", "tokens", "ms", "usd"))}),
    "voyage": HttpDialect(
        "v1/rerank", "https://api.voyageai.com", "VOYAGE_API_KEY", limit="top_k", results="data", call_tokens=90_000
    ),
}


def address_of(name: str, url: str | None) -> str:
    """The URL if it ends in ``rerank...``; else with ``/rerank`` after a version (``/v1``), or the dialect's path."""
    dialect = DIALECTS[name]
    base = check_base_url("reranker url", dialect.service if url is None else url, "see api_key_env")
    if base is None:
        raise ConfigError(
            f"reranker url=None: allowed is http(s)://host[:port][/path], since {name!r} is no one's service"
        )
    last = urlsplit(base).path.rpartition("/")[2]
    if last.startswith("rerank"):
        return base
    return f"{base}/{'rerank' if re.fullmatch(r'v[0-9]+', last) else dialect.path}"


def key_variable(name: str, address: str) -> str:
    """Return the variable that holds the key: a provider's own variable for its own service only."""
    service = DIALECTS[name].service
    is_own = service is not None and urlsplit(address).netloc == urlsplit(service).netloc
    return DIALECTS[name].key_env if is_own else ANY_KEY


def _read_bill(reply: Any) -> tuple[int | None, float | None]:
    """(tokens, search units) as far as a reply of any dialect reports them."""
    top = reply if isinstance(reply, dict) else {}
    usage, meta = _table(top, "usage"), _table(top, "meta")
    billed, read = _table(meta, "billed_units"), _table(meta, "tokens")
    told = [
        usage.get("total_tokens"),
        usage.get("prompt_tokens"),
        billed.get("total_tokens"),
        billed.get("input_tokens"),
    ]
    tokens = next((count for count in map(_amount, [*told, read.get("input_tokens")]) if count is not None), None)
    return None if tokens is None else int(tokens), _amount(billed.get("search_units"))


def _number(value: Any) -> float | None:
    """A finite number, which some servers write as a text; None for anything else."""
    if isinstance(value, str) and _NUMERAL.fullmatch(value.strip()):
        value = float(value)
    return float(value) if type(value) in (float, int) and math.isfinite(value) else None  # as JSON has them


def _table(within: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = within.get(name)
    return found if isinstance(found, dict) else {}


def _amount(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= _MOST else None
