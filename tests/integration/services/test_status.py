"""The status page of the rerank server: what an operator sees of the last hour and the last day."""

import re
import time
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from rerank_server import HTTP, KEY, ask, serving
from web_pages import NEEDS_CHROMIUM, browser_page

from ragtune.core.batches.failures import FailurePolicy
from ragtune.rerankers.function import FunctionReranker
from ragtune.services.rerank import RerankServer
from ragtune.services.status import Recent, page

DOCUMENTS = [str(i) for i in range(10)]


@pytest.fixture
def watched() -> Iterator[Any]:
    """A server whose model can be made to fail or to wait, and its address."""
    state = SimpleNamespace(fails=False, waits=0.0)

    def score(query: str, texts: Sequence[str]) -> list[float]:
        if state.fails:
            raise ConnectionError("upstream is away")
        time.sleep(state.waits)
        return [int(text) / 10 for text in texts]

    ranker = RerankServer(
        FunctionReranker(score), "<model>", budget={"docs": 4}, failures=FailurePolicy(retry_after_s=0.0)
    )
    with serving(ranker) as state.url:
        state.ranker = ranker
        yield state


def get(url: str, path: str = "/status.json", **options: Any) -> Any:
    return HTTP.get(url + path, **({"headers": {"X-API-Key": KEY}} | options))


def test_it_shows_savings_fallbacks_missed_deadlines_and_doubts(watched: Any) -> None:
    def rank(**fields: Any) -> None:
        assert ask(watched.url, "/v1/rerank", {"query": "q", "documents": DOCUMENTS} | fields).status_code == 200

    rank()
    rank(budget={"ms": 60_000})
    watched.waits = 0.6
    rank(budget={"ms": 500, "docs": 1})
    watched.waits, watched.fails = 0.0, True
    rank()
    assert ask(watched.url, "/v1/rerank", {"query": 1}).status_code == 422
    watched.ranker.metrics.doubted("the source 'a' < the reranker")
    found = get(watched.url).json()
    told = {"requests": 4, "refused": 1, "errors": 0, "documents": 40, "read": 9, "fallbacks": 1}
    told |= {"saved_documents": 6 + 6 + 9, "with_deadline": 2, "deadline_misses": 1, "doubts": 1}
    assert {name: found["hour"][name] for name in told} == told
    assert found["day"] == found["hour"]
    assert found["hour"]["p50_ms"] <= found["hour"]["p99_ms"]
    assert sum(found["by_minute"]["requests"]) == 4
    assert [one["doubt"] for one in found["latest_doubts"]] == ["the source 'a' < the reranker"]
    figures = get(watched.url, "/metrics").text
    assert "ragtune_rerank_fallbacks_total 1.0" in figures
    assert "ragtune_rerank_doubts_total 1.0" in figures
    assert 'ragtune_rerank_deadlines_total{outcome="missed"} 1.0' in figures


def test_a_browser_may_give_the_key_as_a_password_to_this_page_alone(watched: Any) -> None:
    refused = get(watched.url, "/status", headers={})
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith("Basic ")
    for path in ("/status", "/status.json"):
        assert get(watched.url, path, headers={}, auth=("anybody", KEY)).status_code == 200
        assert get(watched.url, path, headers={}, auth=("anybody", KEY[:-1])).status_code == 401
        assert get(watched.url, path, headers={"Authorization": "Basic ???"}).status_code == 401
    assert get(watched.url, "/metrics", headers={}, auth=("anybody", KEY)).status_code == 401


def test_minutes_leave_the_hour_and_the_day() -> None:
    now = [1_000_000.0]
    recent = Recent(lambda: now[0])
    seen = []
    for _ in range(4):
        recent.answered(200, 0.1)
        found = recent.status("m", False)
        seen.append((found["hour"]["requests"], found["day"]["requests"], sum(found["by_minute"]["requests"])))
        now[0] += 59 * 60
    assert seen == [(1, 1, 1), (2, 2, 2), (2, 3, 2), (2, 4, 2)]
    assert found["day"]["p50_ms"] == pytest.approx(100, rel=0.1)
    now[0] += 24 * 3600
    assert recent.status("m", False)["day"]["requests"] == 0
    recent.add({"fallbacks": 3})  # of requests that time out, which are errors
    assert set(re.findall(r' height="([0-9.]+)"', page(recent.status("m", False)))) == {"0.0", "40.0"}


@pytest.mark.browser
@NEEDS_CHROMIUM
def test_the_page_shows_the_figures_on_a_phone_and_asks_no_other_server(watched: Any) -> None:
    ask(watched.url, "/v1/rerank", {"query": "q", "documents": DOCUMENTS})
    watched.fails = True
    ask(watched.url, "/v1/rerank", {"query": "q", "documents": DOCUMENTS})
    watched.ranker.metrics.doubted("the source 'a' < the reranker")
    with browser_page(390, 844) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.set_extra_http_headers({"X-API-Key": KEY})
        page.goto(f"{watched.url}/status")
        saved = page.get_by_role("row", name="Documents saved").get_by_role("cell").first
        saved.wait_for()
        assert saved.inner_text().split() == ["6", "(30%)"]
        fallbacks = page.get_by_role("row", name="Fallbacks").get_by_role("cell").first.inner_text()
        assert fallbacks.split() == ["1", "(50%)"]
        assert page.locator("h1").inner_text() == "<model>"
        assert "'a' < the reranker" in page.locator("li").inner_text()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert {one.removeprefix(watched.url) for one in asked} <= {"/status", "/favicon.ico"}
