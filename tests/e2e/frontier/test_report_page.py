"""report.html in a real browser, from disk, without a network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.browser

QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def opened(frontier: SimpleNamespace) -> Iterator[SimpleNamespace]:
    """The page, every request it made and every error it raised."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on this machine")
    address = (frontier.folder / "report.html").as_uri()
    requests: list[str] = []
    errors: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(QUIET))
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(address)
        page.wait_for_selector("#order .main-svg")
        yield SimpleNamespace(page=page, requests=requests, errors=errors, address=address)
        browser.close()


def test_it_asks_for_nothing_but_itself_and_raises_no_error(opened: SimpleNamespace) -> None:
    assert opened.requests == [opened.address]
    assert opened.errors == []


def test_the_curves_show_every_policy_with_its_points(opened: SimpleNamespace) -> None:
    names = opened.page.locator("#curves .legendtext").all_text_contents()
    assert names[:2] == ["fixed depth", "uncertainty, settled"]
    lines = opened.page.locator("#curves .scatterlayer .trace .points")
    assert [lines.nth(i).locator("path").count() for i in range(lines.count())].count(2) == 2


def test_the_table_shows_what_the_csv_says(opened: SimpleNamespace, frontier: SimpleNamespace) -> None:
    import pandas as pd

    shown = [row.split("\t") for row in opened.page.locator("#means tbody tr").all_inner_texts()]
    table = pd.read_csv(frontier.folder / "frontier.csv").set_index(["label", "budget"])["nDCG@10"]
    for label, *figures in shown:
        for budget, figure in zip((5, 10), figures, strict=True):
            assert float(figure.strip("▲▼△▽")) == pytest.approx(table[label, budget], abs=0.00051)


def test_a_picked_query_shows_which_document_was_reranked_when_and_why(opened: SimpleNamespace) -> None:
    page = opened.page
    page.select_option("#query", "q02")
    for policy in ("fixed", "settled"):
        rows = page.locator(f"#traces table[data-policy={policy}] tbody tr")
        assert rows.count() == 10
        cells = rows.first.locator("td").all_inner_texts()
        assert cells[0] == "1"
        assert "/" in cells[4]
        assert 0 <= float(cells[5]) <= 1
    batches = [
        row.split("\t")[1] for row in page.locator("#traces table[data-policy=settled] tbody tr").all_inner_texts()
    ]
    assert len(set(batches)) > 1
    assert page.locator("#order .scatterlayer .trace").count() == 2


def test_next_and_previous_walk_through_the_queries(opened: SimpleNamespace) -> None:
    page = opened.page
    before = page.input_value("#query")
    page.click("#next")
    assert page.input_value("#query") != before
    page.click("#previous")
    assert page.input_value("#query") == before


def test_a_click_on_a_bar_picks_its_query(opened: SimpleNamespace) -> None:
    page = opened.page
    last = page.locator("#query option").last.get_attribute("value")
    assert page.input_value("#query") != last
    bar = page.locator("#bars .bars .point").last
    bar.scroll_into_view_if_needed()
    box = bar.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_function("query => document.getElementById('query').value === query", arg=last)


def test_budget_and_measure_change_what_is_compared(opened: SimpleNamespace) -> None:
    page = opened.page
    note = page.inner_text("#queries-note")
    page.select_option("#column", "5")
    assert page.inner_text("#queries-note") != note
    page.select_option("#measure", label="RR@10")
    assert "RR@10" in page.text_content("#curves .ytitle")
    page.select_option("#measure", label="nDCG@10")
    page.select_option("#column", "10")
