"""The rerank API of a running server: budgets, failures, warnings and figures; its dialects have their own tests."""

from collections.abc import Iterator, Sequence
from typing import Any

import httpx2
import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from patience import wait_until
from rerank_server import KEY, TEXTS, ask, count_tea, serving

from ragtune.rerankers.calibration import Calibration
from ragtune.rerankers.function import FunctionReranker
from ragtune.rerankers.ordering import OrderingReranker
from ragtune.services.limits import ServerLimits
from ragtune.services.rerank import RerankServer
from ragtune.services.shadow import ShadowOptions
from ragtune.services.telemetry import CAPTURE

TENTHS = FunctionReranker(lambda query, texts: [int(text) / 10 for text in texts])
PATHS = ["/v1/rerank", "/v2/rerank", "/rerank"]


def dead(query: str, texts: Sequence[str]) -> list[float]:
    raise ConnectionError("upstream is away")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    ranker = RerankServer(FunctionReranker(count_tea), "counter", batch_size=2, max_documents=100)
    with serving(ranker, ServerLimits(body_bytes=10_000)) as address:
        yield address


def order(answer: httpx2.Response) -> list[int]:
    assert answer.status_code == 200, answer.text
    return [one["index"] for one in answer.json()["results"]]


@pytest.mark.parametrize("policy", ["uncertainty", "settled", "fixed_depth"])
def test_a_scored_document_has_the_models_score_and_any_other_is_marked(policy: str) -> None:
    texts = [f"{'tea ' * (i * 7 % 10)}text {i}" for i in range(30)]

    class Forgetful(FunctionReranker):
        def rerank(self, items: Any, *context: Any) -> dict[str, float]:
            scores = super().rerank(items, *context)
            return {doc_id: score for doc_id, score in scores.items() if not doc_id.endswith(("3", "8"))}

    with serving(RerankServer(Forgetful(count_tea), "counter", policy=policy, batch_size=3)) as address:
        request = {"query": "tea", "documents": texts, "budget": {"docs": 12}, "scores": [30 - i for i in range(30)]}
        answer = ask(address, PATHS[0], request).json()
    read = answer["ragtune"]["reranked"]
    assert 0 < len(read) < len(texts)
    assert answer["ragtune"]["failed"]
    for one in answer["results"]:
        assert one["estimated"] is (one["index"] not in read)
        assert one["estimated"] or one["relevance_score"] == count_tea("tea", [texts[one["index"]]])[0]


@pytest.mark.parametrize("path", PATHS)
def test_requests_are_read_as_other_servers_read_them(url: str, path: str) -> None:
    documents = [{"text": "tea", "n": 1}, "coffee tea tea", {"title": "tea tea tea", "text": "x"}]

    def found(**fields: Any) -> list[int]:
        return order(ask(url, path, {"query": "tea", "documents": documents, **fields}))

    assert found() == [1, 0, 2]
    assert found(top_n=0) == found(top_n=None) == found(top_n=99) == [1, 0, 2]
    assert found(top_n=1, model="any") == [1]
    assert found(rank_fields=["title", "text"]) == [2, 1, 0]
    assert found(max_tokens_per_doc=1) == [0, 1, 2]
    shown = ask(url, path, {"query": "tea", "documents": documents, "return_documents": True}).json()["results"]
    assert [one["document"] for one in shown] == [{"text": documents[1]}, documents[0], documents[2]]


def test_the_servers_budget_holds_unit_by_unit_unless_a_request_names_its_own(url: str) -> None:
    ranker = RerankServer(FunctionReranker(count_tea), "counter", budget={"docs": 2, "calls": 1}, batch_size=2)

    def spent(**budget: float | None) -> tuple[int, int]:
        body = {"query": "tea", "documents": TEXTS, "budget": budget or None}
        own = ask(address, "/rerank", body).json()["ragtune"]["spent"]
        return own["docs"], own["calls"]

    with serving(ranker) as address:
        assert spent() == (2, 1)
        assert spent(docs=4) == (2, 1)
        assert spent(docs=4, calls=2) == (4, 2)
        assert spent(docs=None, calls=None) == (5, 1)
        assert spent(docs=0) == (0, 0)


WRONG = [
    (b'{"query": "tea", ', 400, "malformed-request", "EOF"),
    (b'{"query": "tea", "documents": ["a"], "scores": [NaN]}', 400, "malformed-request", "Invalid JSON"),
    ({"query": "tea"}, 422, "invalid-request", "/documents"),
    ({"query": "tea", "documents": [{"title": "a"}]}, 422, "invalid-request", "/documents/0"),
    ({"query": "tea", "documents": ["a"], "budget": {"docks": 1}}, 422, "invalid-request", "/budget/docks"),
    ({"query": "tea", "documents": ["a"], "scores": [1, 2]}, 422, "invalid-request", "2 scores"),
    ({"query": "tea", "documents": ["a"], "query_vector": [1]}, 422, "invalid-request", "without vectors"),
    ({"query": "tea", "documents": ["a"], "scores": [1, 2], "budget": {"ms": 0}}, 422, "invalid-request", "2 scores"),
    ({"query": "tea", "documents": ["a"] * 101}, 422, "limit-exceeded", "101"),
    ({"query": "tea", "documents": ["a" * 20_000]}, 413, "too-large", "10000 bytes"),
]


@pytest.mark.parametrize(("body", "status", "kind", "told"), WRONG, ids=[f"{w[2]} {w[3]}" for w in WRONG])
def test_bad_input_is_named(url: str, body: Any, status: int, kind: str, told: str) -> None:
    answer = ask(url, PATHS[0], body)
    problem = answer.json()
    assert (answer.status_code, problem["type"]) == (status, f"urn:ragtune:problem:{kind}")
    assert told in problem["message"] == problem["detail"]


def test_without_a_model_the_api_says_so_and_the_block_works() -> None:
    import cohere

    with serving(None) as address:
        with pytest.raises(cohere.NotFoundError) as missing:
            cohere.ClientV2(KEY, base_url=address).rerank(model="m", query="tea", documents=TEXTS)
        assert "--model" in missing.value.body["message"]
        assert ask(address, "/v1/rerank", {"query": "tea"}).json()["message"].startswith("/documents")
        assert ask(address, "/v1/rerank", {"query": "tea", "candidates": []}).json() == {"candidates": []}


def test_a_dead_model_leaves_the_first_stages_order_with_a_warning_and_is_soon_left_alone() -> None:
    calls = 0

    def count_and_die(query: str, texts: Sequence[str]) -> list[float]:
        nonlocal calls
        calls += 1
        return dead(query, texts)

    with serving(RerankServer(FunctionReranker(count_and_die), "counter", batch_size=3)) as address:
        for budget in (None, {"docs": 2}, {"docs": 3, "calls": 1}, None, None, {"docs": 2}, {"docs": 2}):
            answer = ask(address, "/v2/rerank", {"query": "tea", "documents": TEXTS, "budget": budget})
            assert order(answer) == [0, 1, 2, 3, 4]
            assert "upstream is away" in " ".join(answer.json()["meta"]["warnings"])
            assert answer.json()["ragtune"]["reranked"] == []
        assert calls == 5  # three without a budget, which close the model for the others, too
        figures = httpx2.get(f"{address}/metrics", headers={"X-API-Key": KEY}).text
    assert "ragtune_rerank_breaker_open 1.0" in figures
    assert "ragtune_rerank_upstream_errors_total 5.0" in figures


def test_a_model_that_opposes_agreeing_sources_is_told_of_once(capfd: pytest.CaptureFixture[str]) -> None:
    def against(query: str, texts: Sequence[str]) -> list[float]:
        return [1.0 - int(text.split()[1]) / 20 for text in texts]

    def request(query: int) -> dict[str, Any]:
        texts = [f"q{query} {(7 * i + query) % 11}" for i in range(11)]
        worth = [float(text.split()[1]) for text in texts]
        noisy = [value + 0.3 * ((3 * i + query) % 5) for i, value in enumerate(worth)]
        return {"query": f"q{query}", "documents": texts, "scores": {"bm25": worth}, "signals": {"clicks": noisy}}

    with serving(RerankServer(FunctionReranker(against), "against", budget={"docs": 8}, trust=0.4)) as address:
        for query in [*range(30), *[29] * 30]:
            assert "warnings" not in ask(address, "/v2/rerank", request(query)).json()["meta"]
    told = [line for line in capfd.readouterr().err.splitlines() if line.startswith("ragtune: warning: ")]
    assert len(told) == 2
    assert "the source 'bm25' agrees better with the other sources than the reranker does" in told[0]
    assert "see --trust (0 follows the sources, 1 the model)" in told[0]


def test_a_policy_that_compares_asks_as_often_as_the_budget_says_or_until_it_has_nothing_left_to_ask() -> None:
    def order_by_tea(query: str, texts: Sequence[str]) -> list[int]:
        counted = count_tea(query, texts)
        return sorted(range(len(texts)), key=lambda i: -counted[i])

    ranker = RerankServer(
        OrderingReranker(order_by_tea),
        "m",
        policy="sliding",
        batch_size=4,
        budget={"calls": 2},
        is_local=True,
        shadow=ShadowOptions(1.0),
    )
    documents = [f"text {i}{' tea' * (i % 9)}" for i in range(18)]
    with serving(ranker) as address:
        some, all_of_it = (
            ask(address, "/v2/rerank", {"query": "tea", "documents": documents, "budget": budget}).json()
            for budget in (None, {"calls": None})
        )
        wait_until(lambda: ranker._shadow is not None and ranker._shadow.outcomes["measured"] == 1)
        saved = ranker._shadow.figures()["saved_docs"].mean
    assert saved == 18 - some["ragtune"]["spent"]["docs"]  # the shadow asks about all documents at once, not in batches
    assert some["ragtune"]["spent"]["calls"] == 2
    assert all_of_it["ragtune"]["spent"]["calls"] == 8
    assert all_of_it["ragtune"]["stop"]["reason"] == "nothing_to_compare"
    assert sorted(one["index"] for one in all_of_it["results"][:2]) == [8, 17]
    assert "warnings" not in some["meta"]


def test_metrics_tell_what_requests_cost() -> None:
    ranker = RerankServer(FunctionReranker(count_tea), "counter", is_local=True)
    with serving(ranker, ServerLimits(in_flight=1)) as address:
        assert httpx2.get(f"{address}/metrics").status_code == 401
        ask(address, "/v2/rerank", {"query": "tea", "documents": TEXTS, "budget": {"docs": 2}})
        ask(address, "/rerank", {"query": "tea"})
        ask(address, "/rerank", {"query": "tea"}, key="another-key-of-the-tests")
        answer = httpx2.get(f"{address}/metrics", headers={"X-API-Key": KEY})
    assert answer.headers["content-type"].startswith("text/plain")
    for line in (
        'requests_total{path="/v2/rerank",status="200"} 1.0',
        'requests_total{path="/rerank",status="401"} 1.0',
        'documents_total{outcome="scored"} 2.0',
        'stops_total{reason="budget_exhausted"} 1.0',
        "breaker_open 0.0",
        "seconds_count 3.0",
        "shared_batches_count 1.0",
    ):
        assert f"\nragtune_rerank_{line}\n" in answer.text, line


def test_answers_have_what_reaches_a_threshold_and_say_where_nothing_does() -> None:
    half = Calibration(model="m", method="isotonic", scores=(0.0, 1.0), probabilities=(0.0, 0.5))
    request = {"query": "tea", "documents": ["8", "2", "9", "7", "3", "1"], "budget": {"docs": 4}}
    with serving(RerankServer(TENTHS, "m", policy="fixed_depth", calibration=half)) as url:
        some, none, plain = (
            ask(url, "/v2/rerank", request | more).json()
            for more in ({"min_score": 0.36, "top_n": 5}, {"min_score": 0.5}, {})
        )
        wrong = ask(url, "/v2/rerank", request | {"min_score": 1.1})
    assert [(one["index"], one["relevance_score"]) for one in some["results"]] == [(2, 0.45), (0, 0.4)]
    assert "nothing_relevant" not in some["ragtune"]
    assert none["results"] == []
    assert none["ragtune"]["nothing_relevant"] is True
    assert none["ragtune"]["spent"]["docs"] == 4
    assert len(plain["results"]) == 6
    assert "nothing_relevant" not in plain["ragtune"]
    assert wrong.status_code == 422
    assert "/min_score" in wrong.json()["detail"]


@pytest.mark.parametrize("captures", [False, True])
def test_a_request_is_a_span_of_a_reranker_and_its_texts_are_shown_on_demand(
    monkeypatch: pytest.MonkeyPatch, captures: bool
) -> None:
    request = {"query": "which number", "documents": ["2", "9", "5"], "top_n": 2, "budget": {"docs": 2}}
    exporter, provider, reader = InMemorySpanExporter(), TracerProvider(), InMemoryMetricReader()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    monkeypatch.setattr(metrics, "get_meter", MeterProvider([reader]).get_meter)
    monkeypatch.setenv(CAPTURE, str(captures).lower())
    with serving(RerankServer(TENTHS, "m")) as url:
        tokens = ask(url, "/v1/rerank", request).json()["usage"]["total_tokens"]
    (span,) = exporter.get_finished_spans()
    told: dict[str, Any] = dict(span.attributes or {})
    assert span.name == "rerank m"
    expected = {
        "ragtune.documents": 3,
        "ragtune.spent.docs": 2,
        "ragtune.saved.docs": 1,
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
    points = {one.name: one.data.data_points for one in found.resource_metrics[0].scope_metrics[0].metrics}
    assert points["gen_ai.server.request.duration"][0].count == 1
    assert points["gen_ai.client.token.usage"][0].sum == tokens
    assert points["gen_ai.client.token.usage"][0].attributes["gen_ai.token.type"] == "input"
