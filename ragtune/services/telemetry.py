"""Spans and metrics of the rerank API, by OpenTelemetry's GenAI and OpenInference's reranker conventions."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from typing import Any

from ragtune.core.types import FREE
from ragtune.facade.ranking import Ranking
from ragtune.services.payloads import RerankQuery

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Variable that allows the query and the texts in spans: ``true``, or ``span_only`` or ``span_and_event``."""

_MOST_DOCUMENTS = 20  # of a span: more would pass OpenTelemetry's usual limit of 128 attributes


@contextmanager
def traced(model: str, request: RerankQuery, texts: Sequence[str]) -> Iterator[Callable[[Ranking], None]]:
    """A span around a request, and what hears of its ranking; neither without the extra ``telemetry``."""
    try:
        from openinference.semconv.trace import DocumentAttributes as Doc
        from openinference.semconv.trace import OpenInferenceSpanKindValues, SpanAttributes
        from openinference.semconv.trace import RerankerAttributes as Rerank
        from opentelemetry import metrics, trace
        from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai
    except ImportError:
        yield lambda ranking: None
        return
    common = {gen_ai.GEN_AI_OPERATION_NAME: "rerank", gen_ai.GEN_AI_PROVIDER_NAME: "ragtune"}
    common[gen_ai.GEN_AI_REQUEST_MODEL] = model
    known: dict[str, Any] = {
        SpanAttributes.OPENINFERENCE_SPAN_KIND: OpenInferenceSpanKindValues.RERANKER.value,
        Rerank.RERANKER_MODEL_NAME: model,
        Rerank.RERANKER_TOP_K: request.top_n or len(texts),
        "ragtune.documents": len(texts),
    }
    shows = os.environ.get(CAPTURE, "").lower() in ("true", "span_only", "span_and_event")
    if shows:
        inputs = ({Doc.DOCUMENT_ID: str(i), Doc.DOCUMENT_CONTENT: text} for i, text in enumerate(texts))
        known |= {Rerank.RERANKER_QUERY: request.query, **_flat(Rerank.RERANKER_INPUT_DOCUMENTS, inputs)}
    started, spent = time.perf_counter(), FREE

    def tell(ranking: Ranking) -> None:
        nonlocal spent
        spent = ranking.cost
        if not span.is_recording():
            return
        outputs = (
            {Doc.DOCUMENT_ID: str(one.index), Doc.DOCUMENT_SCORE: one.score}
            | ({Doc.DOCUMENT_CONTENT: texts[one.index]} if shows else {})
            for one in ranking[: request.top_n or None]
        )
        span.set_attributes(_flat(Rerank.RERANKER_OUTPUT_DOCUMENTS, outputs))
        span.set_attributes({f"ragtune.spent.{unit}": amount for unit, amount in spent})
        span.set_attributes({f"ragtune.saved.{unit}": amount for unit, amount in ranking.saved})
        span.set_attribute("ragtune.stop", "" if ranking.stop is None else ranking.stop.reason)
        span.set_attribute(gen_ai.GEN_AI_USAGE_INPUT_TOKENS, spent.tokens)

    with trace.get_tracer("ragtune").start_as_current_span(f"rerank {model}", attributes=common | known) as span:
        try:
            yield tell
        finally:
            seconds, tokens = _instruments(metrics.get_meter)
            seconds.record(time.perf_counter() - started, common)
            tokens.record(spent.tokens, common | {gen_ai.GEN_AI_TOKEN_TYPE: gen_ai.GenAiTokenTypeValues.INPUT.value})


@lru_cache(maxsize=1)  # without a provider, every meter that is asked for stays in memory
def _instruments(get_meter: Callable[[str], Any]) -> tuple[Any, Any]:
    from opentelemetry.semconv._incubating.metrics import gen_ai_metrics as names

    meter = get_meter("ragtune")
    return names.create_gen_ai_server_request_duration(meter), names.create_gen_ai_client_token_usage(meter)


def _flat(name: str, documents: Iterator[Mapping[str, Any]]) -> dict[str, Any]:
    first = enumerate(islice(documents, _MOST_DOCUMENTS))
    return {f"{name}.{place}.{key}": value for place, document in first for key, value in document.items()}
