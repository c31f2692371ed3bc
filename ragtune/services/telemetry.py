"""Spans and metrics of the rerank API, by OpenTelemetry's GenAI and OpenInference's reranker conventions."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragtune.facade.ranking import Ranking
    from ragtune.services.rerank_payloads import RerankQuery

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Variable that allows the query and the texts in spans: ``true``, or ``span_only`` or ``span_and_event``."""

_OPERATION, _PROVIDER = "rerank", "ragtune"
_MOST_DOCUMENTS = 20  # of a span: more would pass OpenTelemetry's usual limit of 128 attributes


@contextmanager
def traced(model: str, request: RerankQuery, texts: Sequence[str]) -> Iterator[Callable[[Ranking], None]]:
    """A span around a request, and what hears of its ranking; neither without the extra ``telemetry``."""
    try:
        from openinference.semconv.trace import OpenInferenceSpanKindValues, RerankerAttributes, SpanAttributes
        from opentelemetry import trace
        from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai
    except ImportError:
        yield lambda ranking: None
        return
    common = {
        gen_ai.GEN_AI_OPERATION_NAME: _OPERATION,
        gen_ai.GEN_AI_PROVIDER_NAME: _PROVIDER,
        gen_ai.GEN_AI_REQUEST_MODEL: model,
    }
    known: dict[str, Any] = {
        SpanAttributes.OPENINFERENCE_SPAN_KIND: OpenInferenceSpanKindValues.RERANKER.value,
        RerankerAttributes.RERANKER_MODEL_NAME: model,
        RerankerAttributes.RERANKER_TOP_K: request.top_n or len(texts),
        "ragtune.documents": len(texts),
    }
    shown = texts if os.environ.get(CAPTURE, "").lower() in ("true", "span_only", "span_and_event") else None
    if shown is not None:
        known[RerankerAttributes.RERANKER_QUERY] = request.query
        known |= _documents(RerankerAttributes.RERANKER_INPUT_DOCUMENTS, range(len(texts)), shown, {})
    started, tokens = time.perf_counter(), 0

    def tell(ranking: Ranking) -> None:
        nonlocal tokens
        tokens = ranking.cost.tokens
        best = ranking[: request.top_n or None]
        scores = {one.index: one.score for one in best}
        name = RerankerAttributes.RERANKER_OUTPUT_DOCUMENTS
        span.set_attributes(_documents(name, [one.index for one in best], shown, scores) | _costs(ranking))
        span.set_attribute(gen_ai.GEN_AI_USAGE_INPUT_TOKENS, tokens)

    failure: dict[str, str] = {}
    with trace.get_tracer("ragtune").start_as_current_span(f"{_OPERATION} {model}", attributes=common | known) as span:
        try:
            yield tell
        except Exception as error:
            from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE

            failure = {ERROR_TYPE: type(error).__name__}
            span.set_attributes(failure)
            raise
        finally:
            _measure(common | failure, time.perf_counter() - started, tokens)


def _measure(common: dict[str, str], seconds: float, tokens: int) -> None:
    from opentelemetry import metrics
    from opentelemetry.semconv._incubating.attributes.gen_ai_attributes import GEN_AI_TOKEN_TYPE

    duration, usage = _instruments(metrics.get_meter)
    duration.record(seconds, common)
    usage.record(tokens, common | {GEN_AI_TOKEN_TYPE: "input"})


@lru_cache(maxsize=1)  # without a provider, every meter that is asked for stays in memory
def _instruments(get_meter: Callable[[str], Any]) -> tuple[Any, Any]:
    from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

    meter = get_meter("ragtune")
    return (
        gen_ai_metrics.create_gen_ai_server_request_duration(meter),
        gen_ai_metrics.create_gen_ai_client_token_usage(meter),
    )


def _documents(
    name: str, indices: Sequence[int], texts: Sequence[str] | None, scores: dict[int, float]
) -> dict[str, Any]:
    """Documents as OpenInference flattens them; an id is the position in the request."""
    from openinference.semconv.trace import DocumentAttributes

    found: dict[str, Any] = {}
    for place, index in enumerate(indices[:_MOST_DOCUMENTS]):
        found[f"{name}.{place}.{DocumentAttributes.DOCUMENT_ID}"] = str(index)
        if index in scores:
            found[f"{name}.{place}.{DocumentAttributes.DOCUMENT_SCORE}"] = scores[index]
        if texts is not None:
            found[f"{name}.{place}.{DocumentAttributes.DOCUMENT_CONTENT}"] = texts[index]
    return found


def _costs(ranking: Ranking) -> dict[str, Any]:
    figures = {"spent": ranking.cost.model_dump(), "saved": ranking.saved.model_dump()}
    found = {f"ragtune.{name}.{unit}": amount for name, units in figures.items() for unit, amount in units.items()}
    return found | {"ragtune.stop": "" if ranking.stop is None else ranking.stop.reason}
