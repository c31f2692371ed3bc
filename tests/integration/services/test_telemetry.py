"""Spans and metrics of the rerank API, by the names that tracing tools know."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from rerank_server import ask, serving

from ragtune.rerankers.function import FunctionReranker
from ragtune.services.rerank import RerankServer
from ragtune.services.telemetry import CAPTURE

REQUEST = {"query": "which number", "documents": ["2", "9", "5"], "top_n": 2}


@pytest.mark.parametrize("captures", [False, True])
def test_a_request_is_a_span_of_a_reranker_and_its_texts_are_shown_on_demand(
    monkeypatch: pytest.MonkeyPatch, captures: bool
) -> None:
    exporter, provider, reader = InMemorySpanExporter(), TracerProvider(), InMemoryMetricReader()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    monkeypatch.setattr(metrics, "get_meter", MeterProvider([reader]).get_meter)
    monkeypatch.setenv(CAPTURE, str(captures).lower())
    with serving(RerankServer(FunctionReranker(lambda query, texts: [int(text) / 10 for text in texts]), "m")) as url:
        tokens = ask(url, "/v1/rerank", REQUEST).json()["usage"]["total_tokens"]
    (span,) = exporter.get_finished_spans()
    told: dict[str, Any] = dict(span.attributes or {})
    assert span.name == "rerank m"
    expected = {
        "gen_ai.operation.name": "rerank",
        "gen_ai.provider.name": "ragtune",
        "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": tokens,
        "openinference.span.kind": "RERANKER",
        "reranker.model_name": "m",
        "reranker.top_k": 2,
        "reranker.output_documents.0.document.id": "1",
        "reranker.output_documents.0.document.score": 0.9,
        "reranker.output_documents.1.document.id": "2",
    }
    assert {name: told.get(name) for name in expected} == expected
    assert "reranker.output_documents.2.document.id" not in told
    assert told.get("reranker.query") == ("which number" if captures else None)
    assert told.get("reranker.input_documents.1.document.content") == ("9" if captures else None)
    assert any("9" in str(value) and "content" in name for name, value in told.items()) is captures
    found = reader.get_metrics_data()
    assert found is not None
    points = {one.name: one.data.data_points for one in found.resource_metrics[0].scope_metrics[0].metrics}
    assert points["gen_ai.server.request.duration"][0].count == 1
    assert points["gen_ai.client.token.usage"][0].sum == tokens
    assert points["gen_ai.client.token.usage"][0].attributes["gen_ai.token.type"] == "input"
