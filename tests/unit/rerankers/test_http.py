"""Reranking over HTTP, against a real server that speaks every dialect and fails on demand."""

import math
import pickle
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from llm_server import Fault
from rerank_shapes import SHAPES

from ragtune.core.errors import ConfigError, LLMError
from ragtune.core.pool.items import PoolItem, RerankBatch
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.tokens import count_tokens
from ragtune.core.types import CostObject, ScoredDocument
from ragtune.facade.reranker import BudgetedReranker
from ragtune.rerankers.http.reranker import HttpReranker

MakeContext = Callable[..., RAGtuneContext]
KEY = "rk-canary-0123456789"
QUERY = "what lowers blood pressure"


def items(n: int, start: int = 0) -> list[PoolItem]:
    docs = [ScoredDocument(id=f"d{i}", content=f"text {i}", score=1.0 - i / 1000) for i in range(start, start + n)]
    return [PoolItem.from_document(doc, i, {"original": doc.score}) for i, doc in enumerate(docs)]


def number(text: str) -> int:
    return int(text.split()[1])


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CO_API_KEY", "JINA_API_KEY", "VOYAGE_API_KEY", "RERANK_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def make(llm_server: Any) -> Iterator[Callable[..., HttpReranker]]:
    """Makes rerankers of the server, which never wait for a retry; document i has the logit i / 10 - 1."""
    llm_server.relevance = lambda query, text: number(text) / 10.0 - 1.0 if text.startswith("text ") else -5.0
    made: list[HttpReranker] = []

    def one(dialect: str = "cohere", **options: Any) -> HttpReranker:
        defaults = {"url": llm_server.rerank_url(dialect), "model": "test", "sleep": lambda seconds: None}
        made.append(HttpReranker(dialect=dialect, **(defaults | options)))
        return made[-1]

    yield one
    for reranker in made:
        reranker.close()


def charged(context: RAGtuneContext) -> CostObject:
    return context.meter.charged


def sigmoid(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit))


@pytest.mark.parametrize("dialect", SHAPES)
def test_every_dialect_is_spoken_as_its_servers_want_it(
    llm_server: Any, make: Any, make_context: MakeContext, dialect: str
) -> None:
    context = make_context(QUERY)
    reranker = make(dialect, batch_size=3)
    scores = reranker.rerank(items(7), context, "x")
    assert scores == {f"d{i}": pytest.approx(sigmoid(i / 10 - 1), abs=1e-12) for i in range(7)}
    assert list(scores) == [f"d{i}" for i in range(7)]
    assert sorted(len(request.body[SHAPES[dialect].texts]) for request in llm_server.requests) == [1, 3, 3]
    assert charged(context) == context.meter.actual
    assert (charged(context).calls, charged(context).docs) == (3, 7)
    counted = 7 * (count_tokens(QUERY) + 2)
    assert charged(context).tokens == counted == reranker.expected_cost(items(7), context).tokens


def test_a_call_holds_what_the_server_takes_and_says_what_it_is_told_to(
    llm_server: Any, make: Any, make_context: MakeContext
) -> None:
    assert len(make("tei", concurrency=1).rerank(items(70), make_context(), "x")) == 70
    assert [len(request.body["texts"]) for request in llm_server.requests] == [32, 32, 6]
    llm_server.requests.clear()
    make(extra={"max_tokens_per_doc": 512}).rerank(items(2), make_context(QUERY), "x")
    [request] = llm_server.requests
    wanted = {"model": "test", "query": QUERY, "documents": ["text 0", "text 1"], "top_n": 2, "max_tokens_per_doc": 512}
    assert request.body == wanted


def test_calls_of_several_requests_are_under_way_at_once_and_one_that_fails_is_its_own_trouble(
    llm_server: Any, make: Any, make_context: MakeContext
) -> None:
    llm_server.together = 2
    contexts = [make_context(f"query {n}") for n in range(3)]
    reranker = make(concurrency=2, max_retries=0)
    batches = [RerankBatch(items(n), context) for n, context in enumerate(contexts, start=1)]
    assert [len(outcome) for outcome in reranker.rerank_many(batches)] == [1, 2, 3]
    assert llm_server.most_at_once == 2
    assert [charged(context).docs for context in contexts] == [1, 2, 3]
    llm_server.faults += [Fault("unauthorized")]
    new = [RerankBatch(items(2), make_context(f"further query {n}")) for n in range(2)]
    assert sorted(isinstance(outcome, Exception) for outcome in reranker.rerank_many(new)) == [False, True]


@pytest.mark.parametrize(
    ("dialect", "url", "address"),
    [
        ("cohere", None, "https://api.cohere.com/v2/rerank"),
        ("vllm", "http://h:8000", "http://h:8000/rerank"),
        ("vllm", "http://h:8000/v1/", "http://h:8000/v1/rerank"),
        ("jina", "http://h/api/v1/reranking", "http://h/api/v1/reranking"),
        ("cohere", "https://gateway.example/team-7", "https://gateway.example/team-7/v2/rerank"),
    ],
)
def test_any_url_is_joined_rightly(dialect: str, url: str | None, address: str) -> None:
    assert HttpReranker(url, "m", dialect, cache_dir=None).url == address


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dialect": "bing"}, "reranker dialect='bing': allowed are cohere, jina, vllm, tei, infinity, ragtune"),
        ({"dialect": "tei", "url": None}, "reranker url=None: allowed is http"),
        ({"url": f"http://me:{KEY}@host"}, "reranker url holds a user: allowed is http"),
        ({"url": f"http://host/v1?key={KEY}"}, "reranker url: allowed is http"),
        ({"url": None, "model": None}, "reranker model=None: allowed is the name of a model of https://api.cohere.com"),
        ({"scale": "rank"}, "scale='rank': allowed are identity, logit, log_prob, cosine"),
        ({"batch_size": 0}, "reranker batch_size=0: allowed is a whole number >= 1"),
        ({"api_key_env": KEY}, "reranker api_key_env: allowed is the NAME"),
    ],
)
def test_bad_arguments_are_named_and_no_secret_is(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)) as caught:
        HttpReranker(**({"url": "http://host", "model": "m", "cache_dir": None} | options))
    assert KEY not in str(caught.value)


def test_a_key_goes_into_the_header_and_nowhere_else(
    llm_server: Any, make: Any, make_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CO_API_KEY", "of-another-service")
    monkeypatch.setenv("RERANK_API_KEY", KEY)
    llm_server.faults += [None, Fault("unauthorized")]
    llm_server.alter = lambda reply: reply | {"results": [*reply["results"], {"index": KEY, "relevance_score": 1}]}
    reranker, context = make(batch_size=1, concurrency=1, sleep=time.sleep), make_context()
    reranker.rerank(items(2), context, "x")
    assert {request.headers["authorization"] for request in llm_server.requests} == {f"Bearer {KEY}"}
    told = f"{context.trace.events} {vars(reranker)} {reranker!r}"
    assert "Incorrect API key provided: Bearer [secret]" in told
    assert 'index "[secret]"' in told or "index '[secret]'" in told
    assert KEY not in told
    assert KEY.encode() not in pickle.dumps(reranker)


@pytest.mark.parametrize(
    ("dialect", "variable"), [("cohere", "CO_API_KEY"), ("jina", "JINA_API_KEY"), ("voyage", "VOYAGE_API_KEY")]
)
def test_a_providers_own_service_wants_its_own_key(dialect: str, variable: str, make_context: MakeContext) -> None:
    with pytest.raises(ConfigError, match=f"variable {variable} is not set"):
        HttpReranker(model="m", dialect=dialect).rerank(items(1), make_context(), "x")
    with pytest.raises(ConfigError, match=f"variable {variable} is not set"):
        HttpReranker(model="m", dialect=dialect, cache_dir=None).prepare()
    HttpReranker(model="m", dialect=dialect).prepare()  # what is kept needs no key


MESSY: dict[str, tuple[Callable[[Any], Any], list[int]]] = {
    "unsorted, one repeated": (lambda rows: [*rows[::-1], rows[0]], [0, 1, 2, 3]),
    "short": (lambda rows: rows[:2], [2, 3]),
    "index out of range": (lambda rows: [*rows[:3], {"index": 4, "relevance_score": 0.5}], [1, 2, 3]),
    "score that is no numeral": (lambda rows: [rows[0] | {"relevance_score": "0,9"}, *rows[1:]], [0, 1, 2]),
    "numbers in other forms": (
        lambda rows: [{"index": float(row["index"]), "relevance_score": str(row["relevance_score"])} for row in rows],
        [0, 1, 2, 3],
    ),
    "contradictory": (lambda rows: [*rows, rows[0] | {"relevance_score": 0.1}], [0, 1, 2]),
    "not a number": (lambda rows: [rows[0] | {"relevance_score": math.nan}, *rows[1:]], [0, 1, 2]),
    "no score": (lambda rows: [{"index": 3}, *rows[1:]], [0, 1, 2]),
    "not a result": (lambda rows: ["?", None, *rows], [0, 1, 2, 3]),
}


@pytest.mark.parametrize("mess", MESSY)
def test_a_bad_result_costs_its_document_and_no_other(
    llm_server: Any, make: Any, make_context: MakeContext, mess: str
) -> None:
    change, left = MESSY[mess]
    llm_server.alter = lambda reply: reply | {"results": change(reply["results"])}
    context = make_context()
    scores = make().rerank(items(4), context, "x")
    assert scores == {f"d{i}": pytest.approx(sigmoid(i / 10 - 1)) for i in left}
    assert charged(context).docs == context.meter.actual.docs == 4
    # What has no score is not kept as if it had: it is asked again.
    llm_server.alter = None
    llm_server.requests.clear()
    assert len(make().rerank(items(4), make_context(), "x")) == 4
    assert [len(request.body["documents"]) for request in llm_server.requests] == [4 - len(left)] * (len(left) < 4)


def test_a_call_that_fails_costs_its_documents_and_a_call(
    llm_server: Any, make: Any, make_context: MakeContext
) -> None:
    llm_server.faults += [None, Fault("unauthorized"), None]
    context = make_context()
    priced = {"usd_per_search_unit": 0.002}
    scores = make(batch_size=2, concurrency=1, **priced).rerank(items(6), context, "x")
    assert list(scores) == ["d0", "d1", "d4", "d5"]
    [event] = context.trace.find("failed_call", "reranker")
    assert (event.details["doc_ids"], event.details["kind"]) == (["d2", "d3"], "rejected")
    assert charged(context) == context.meter.actual.model_copy(update={"docs": charged(context).docs})
    assert (charged(context).calls, charged(context).usd) == (3, pytest.approx(0.004))


@pytest.mark.parametrize("fault", ["server_error", "bomb"])
def test_a_batch_without_a_score_fails_and_is_charged_its_calls(
    llm_server: Any, make: Any, make_context: MakeContext, fault: str
) -> None:
    llm_server.faults += [Fault(fault)] * 9
    context = make_context()
    reranker = make(max_retries=1, batch_size=2, backoff_initial_s=0.0)
    with pytest.raises(
        LLMError, match=r"127\.0\.0\.1:\d+/cohere/v2/rerank scored none of 4 documents; the first reason"
    ):
        reranker.rerank(items(4), context, "x")
    assert (charged(context).calls, charged(context).tokens, charged(context).usd) == (2, 0, 0.0)
    assert context.meter.actual.calls == 2


@pytest.mark.parametrize(
    "reply",
    [
        {"error": {"message": "the model is loading", "code": 503}},
        {"error": "the model is loading", "error_type": "Overloaded"},
        {"object": "error", "message": "the model is loading"},
        {"detail": [{"loc": ["body"], "msg": "the model is loading"}]},
        {"results": [], "data": [], "errors": ["the model is loading"]},
    ],
)
def test_an_error_with_a_status_of_success_is_refused_in_the_servers_words(
    llm_server: Any, make: Any, make_context: MakeContext, reply: Any
) -> None:
    llm_server.alter = lambda whole: reply
    with pytest.raises(LLMError, match=r"unusable reply: .*the model is loading"):
        make(max_retries=0).rerank(items(2), make_context(), "x")


BILLS: dict[str, tuple[dict[str, Any], float]] = {
    "long documents count several times": ({"meta": {"billed_units": {"search_units": 3}}}, 3.0),
    "not told": ({"meta": None}, 1.0),
    "nonsense": ({"meta": {"billed_units": {"search_units": -4}}}, 1.0),
}


@pytest.mark.parametrize("bill", BILLS)
def test_reported_units_are_charged_whether_the_scores_are_new_or_kept(
    llm_server: Any, make: Any, make_context: MakeContext, bill: str
) -> None:
    told, units = BILLS[bill]
    llm_server.alter = lambda reply: reply | told
    contexts = [make_context(), make_context()]
    for context in contexts:
        make(usd_per_search_unit=1.0).rerank(items(50), context, "x")
    assert len(llm_server.requests) == 1
    assert [charged(context).usd for context in contexts] == [units] * 2
    assert charged(contexts[0]) == contexts[0].meter.actual
    assert charged(contexts[1]) == charged(contexts[0])
    assert contexts[1].meter.actual == CostObject()


TEXTS = [f"text {i}" for i in range(6)]


@pytest.fixture
def ranker(llm_server: Any) -> Iterator[BudgetedReranker]:
    """A ranker over the server, with all limits on failures at their defaults."""
    reranker = HttpReranker(llm_server.rerank_url("cohere"), "test", cache_dir=None, max_retries=0)
    ranker = BudgetedReranker(reranker, docs=6, policy="fixed_depth")
    ranker.warm_up()
    llm_server.relevance = lambda query, text: float(text.split()[1]) - 3.0
    yield ranker
    reranker.close()


def test_the_first_good_answer_comes_within_three_seconds_of_the_servers_return(
    machine: Any, llm_server: Any, ranker: Any
) -> None:
    llm_server.faults[:] = [Fault("server_error")] * 999
    for _ in range(20):
        assert not any(document.reranked for document in ranker.rank("query", TEXTS))
    assert ranker.closed is not None
    assert len(llm_server.requests) < 10
    llm_server.faults.clear()
    machine.work(3000.0)
    assert ranker.rank("query", TEXTS)[0].reranked
    assert ranker.closed is None
