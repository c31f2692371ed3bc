"""One contract for all dialects of the rerank API: order, limits, documents, budgets, errors, bills, unknown fields."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from rerank_server import HTTP, KEY, TEXTS, ask, count_tea, serving

from ragtune.rerankers.function import FunctionReranker
from ragtune.rerankers.http import HttpReranker
from ragtune.services.rerank import RerankServer

BEST_FIRST = [2, 4, 0, 1, 3]
ROUTES = ["/", "/health", "/healthz", "/readyz", "/models", "/v1/models", "/info", "/tei/info", "/vllm/v1/models"]


def text_of(row: Any) -> Any:
    return row["document"]["text"]


def openai_message(body: Any) -> Any:
    return body["error"]["message"]


@dataclass(frozen=True)
class Case:
    """A dialect as its clients know it."""

    paths: Sequence[str]
    query: str = "query"
    texts: str = "documents"
    limit: str | None = "top_n"
    returns: str | None = "return_documents"
    rows: str | None = "results"
    score: str = "relevance_score"
    text: Callable[[Any], Any] = text_of
    message: Callable[[Any], Any] = lambda body: body["message"]
    invalid: int = 422
    refuses: bool = False
    logits: tuple[str, bool] | None = None
    mark: tuple[str, Any] | None = None

    def body(self, texts: Sequence[str] = TEXTS, **more: Any) -> dict[str, Any]:
        mark = {} if self.mark is None else {self.mark[0]: self.mark[1]}
        return {self.query: "tea", self.texts: list(texts), **mark, **more}

    def read(self, answer: httpx2.Response) -> list[Any]:
        assert answer.status_code == 200, answer.text
        found: list[Any] = answer.json() if self.rows is None else answer.json()[self.rows]
        return found


OPENAI: dict[str, Any] = {"message": openai_message, "invalid": 400}
CASES = {
    "cohere v1": Case(["/v1/rerank", "/cohere/v1/rerank"]),
    "cohere v2": Case(["/v2/rerank", "/cohere/v2/rerank"], refuses=True),
    "jina": Case(["/rerank", "/v1/reranking", "/reranking", "/jina/v1/rerank"], message=lambda body: body["detail"]),
    "tei": Case(
        ["/rerank", "/tei/rerank"],
        **{"texts": "texts", "returns": "return_text", "rows": None, "score": "score", "logits": ("raw_scores", True)},
        text=lambda row: row["text"],
        message=lambda body: body["error"],
    ),
    "infinity": Case(
        ["/infinity/rerank", "/infinity/v1/rerank"],
        text=lambda row: row["document"],
        message=openai_message,
        logits=("raw_scores", True),
    ),
    "infinity by its body": Case(
        ["/rerank", "/v1/rerank"], text=lambda row: row["document"], message=openai_message, mark=("raw_scores", False)
    ),
    "voyage": Case(
        ["/voyage/v1/rerank"],
        **{"limit": "top_k", "rows": "data", "invalid": 400, "refuses": True},
        text=lambda row: row["document"],
        message=lambda body: body["detail"],
    ),
    "voyage by its body": Case(
        ["/v1/rerank", "/rerank"],
        **{"limit": "top_k", "rows": "data", "invalid": 400, "refuses": True, "mark": ("truncation", True)},
        text=lambda row: row["document"],
        message=lambda body: body["detail"],
    ),
    "vllm": Case(["/vllm/v1/rerank", "/vllm/rerank"], **OPENAI, returns=None, logits=("use_activation", False)),
    "vllm by its body": Case(
        ["/v1/rerank", "/v2/rerank", "/rerank"], **OPENAI, returns=None, mark=("truncate_prompt_tokens", 500)
    ),
    "vllm score": Case(
        ["/v1/score", "/score", "/vllm/v1/score"],
        **{**OPENAI, "query": "text_1", "texts": "text_2", "limit": None, "returns": None, "rows": "data"},
        score="score",
        logits=("use_activation", False),
    ),
}
EACH = pytest.mark.parametrize(
    ("case", "path"),
    [pytest.param(case, path, id=f"{name} {path}") for name, case in CASES.items() for path in case.paths],
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(RerankServer(FunctionReranker(count_tea), "counter", batch_size=2, max_documents=100)) as address:
        yield address


@EACH
def test_a_dialect_is_read_and_written_as_its_clients_know_it(url: str, case: Case, path: str) -> None:
    rows = case.read(ask(url, path, case.body()))
    in_order = rows if case.limit else sorted(rows, key=lambda row: -row[case.score])
    assert [row["index"] for row in in_order] == BEST_FIRST
    assert [row[case.score] for row in in_order] == pytest.approx([0.3, 0.2, 0.1, 0.1, 0.0])
    if case.limit:
        assert [row["index"] for row in case.read(ask(url, path, case.body(**{case.limit: 2})))] == BEST_FIRST[:2]
        assert len(case.read(ask(url, path, case.body(**{case.limit: None})))) == len(TEXTS)
    if case.returns:
        shown = case.read(ask(url, path, case.body(**{case.returns: True})))
        assert [case.text(row) for row in shown] == [TEXTS[row["index"]] for row in shown]
        hidden = case.read(ask(url, path, case.body(**{case.returns: False})))
        assert not any({"document", "text"} & set(row) for row in hidden)
    if case.logits:
        name, value = case.logits
        raw = {row["index"]: row[case.score] for row in case.read(ask(url, path, case.body(**{name: value})))}
        assert raw[2] == pytest.approx(math.log(0.3 / 0.7))
        assert all(map(math.isfinite, raw.values()))
    assert case.read(ask(url, path, case.body([]))) == []


@EACH
def test_a_budget_and_scores_are_read_and_their_account_is_told(url: str, case: Case, path: str) -> None:
    answer = ask(url, path, case.body(budget={"docs": 2}, scores=[0.1, 0.2, 0.3, 0.9, 0.5]))
    assert sum(not row["estimated"] for row in case.read(answer)) == 2
    if case.rows is not None:  # TEI's answer is a bare list
        told = answer.json()["ragtune"]
        assert (told["spent"]["docs"], told["saved"]["docs"]) == (2, 3)
        assert 3 in told["reranked"]


@EACH
def test_unknown_fields_are_ignored_or_refused_as_by_the_original(url: str, case: Case, path: str) -> None:
    answer = ask(url, path, case.body(topn=1))
    if case.refuses:
        assert answer.status_code == case.invalid
        assert "/topn" in case.message(answer.json())
    else:
        assert len(case.read(answer)) == len(TEXTS)
    if "meta" in answer.json():
        assert answer.json()["meta"]["warnings"] == ["'topn' is unknown here and ignored"]


@EACH
def test_errors_are_where_its_clients_read_them(url: str, case: Case, path: str) -> None:
    wrong = ask(url, path, case.body(budget={"docks": 1}))
    assert (wrong.status_code, wrong.json()["status"]) == (case.invalid, case.invalid)
    assert "/budget/docks" in case.message(wrong.json())
    assert "101 documents" in case.message(ask(url, path, case.body(["tea"] * 101)).json())
    if case is CASES.get(path) or "by its body" not in next(name for name, one in CASES.items() if one is case):
        missing = ask(url, path, {case.texts: []})
        assert case.query in case.message(missing.json())
        if path.count("/") > 2:  # no other dialect is heard there
            assert ask(url, path, b"{").status_code == 400
            assert case.message(ask(url, path, b"{").json())
            assert case.message(ask(url, path, case.body(), key="another-key-of-the-tests").json())


def test_a_score_is_of_one_text_and_others(url: str) -> None:
    for one, others in (("text_1", "text_2"), ("queries", "documents"), ("queries", "items"), ("data_1", "data_2")):
        assert ask(url, "/score", {one: ["tea"], others: "tea tea"}).json()["data"][0]["score"] == 0.2
    assert ask(url, "/score", {"text_1": ["tea", "coffee"], "text_2": ["tea", "coffee"]}).status_code == 400


@pytest.mark.parametrize(
    ("dialect", "price", "billed"),
    [
        ("cohere", {}, {"search_units": 2}),
        ("jina", {"usd_per_1k_tokens": 0.01}, {"search_units": 0, "input_tokens": 0}),
    ],
)
def test_a_bill_is_in_the_units_that_are_charged(
    dialect: str, price: dict[str, float], billed: dict[str, int], llm_server: Any
) -> None:
    upstream = HttpReranker(llm_server.rerank_url(dialect), model="test", dialect=dialect, cache_dir=None, **price)
    with serving(RerankServer(upstream, "m", batch_size=2)) as address:
        told = ask(address, "/v2/rerank", {"query": "tea", "documents": TEXTS, "budget": {"docs": 4}}).json()["meta"]
    if "input_tokens" in billed:
        billed = {**billed, "input_tokens": llm_server.billed_tokens}
        assert told["tokens"]["input_tokens"] == llm_server.billed_tokens > 0
    assert told["billed_units"] == billed
    assert len(llm_server.requests) == 2


def test_routes_that_clients_and_proxies_poll(url: str) -> None:
    headers = {"Authorization": f"Bearer {KEY}"}
    found = {path: HTTP.get(url + path, headers=headers).json() for path in ROUTES}
    assert found["/"]["name"] == "RAGtune"
    assert set(found["/"]["rerank"].values()) <= {path for case in CASES.values() for path in case.paths}
    assert found["/health"] == found["/healthz"] == {"status": "ok"}
    assert [one["id"] for one in found["/v1/models"]["data"]] == ["counter"]
    assert found["/models"] == found["/v1/models"] == found["/vllm/v1/models"]
    assert (found["/info"]["model_id"], found["/info"]["max_client_batch_size"]) == ("counter", 100)
    assert found["/tei/info"] == found["/info"]
    for path, status in (("/", 200), ("/health", 200), ("/tei/health", 200), ("/info", 401), ("/v1/models", 401)):
        assert HTTP.get(url + path).status_code == status
    with serving(None) as address:
        assert HTTP.get(f"{address}/info", headers=headers).status_code == 404
        assert HTTP.get(f"{address}/v1/models", headers=headers).json()["data"] == []
        assert HTTP.get(address).json()["rerank"] == {}
