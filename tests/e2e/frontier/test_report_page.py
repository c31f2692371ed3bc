"""report.html in a real browser, from disk, without a network."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from web_pages import NEEDS_CHROMIUM, browser_page

pytestmark = [pytest.mark.browser, NEEDS_CHROMIUM]


@pytest.fixture(scope="module")
def opened(frontier: SimpleNamespace) -> Iterator[SimpleNamespace]:
    """The page, every request it made and every error it raised."""
    address = (frontier.folder / "report.html").as_uri()
    requests: list[str] = []
    errors: list[str] = []
    with browser_page() as page:
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(address)
        page.wait_for_selector(".main-svg")
        yield SimpleNamespace(page=page, requests=requests, errors=errors, address=address)


def test_the_page_needs_nothing_else_and_begins_with_the_recommendation_of_the_tables(
    opened: SimpleNamespace, frontier: SimpleNamespace
) -> None:
    assert opened.requests == [opened.address]
    assert opened.errors == []
    title = opened.page.inner_text("#advice").splitlines()[0]
    assert title in (frontier.folder / "frontier.md").read_text().splitlines()[2]
    rows = opened.page.locator(".collection > .scroll tbody tr").all_inner_texts()
    table = pd.read_csv(frontier.folder / "frontier.csv").set_index(["label", "budget"])["nDCG@10"]
    assert len(rows) == 2
    for label, *figures in (row.split("\t") for row in rows):
        for budget, figure in zip((5, 10), figures, strict=True):
            assert float(figure.strip("▲▼△▽")) == pytest.approx(table[label, budget], abs=0.00051)
    start = "before anything is reranked: 0.519 (fixed depth, settled)."
    assert start in opened.page.inner_text(".collection > .note")


def test_the_menu_of_units_moves_the_curves(opened: SimpleNamespace) -> None:
    page = opened.page
    assert page.text_content(".xtitle") == "documents a query, mean"
    page.locator(".updatemenu-header").first.click()
    page.locator(".updatemenu-dropdown-button", has_text="cost in calls").click()
    assert page.text_content(".xtitle") == "calls a query, mean"


def test_the_figure_is_saved_for_a_paper(opened: SimpleNamespace) -> None:
    with opened.page.expect_download() as download:
        opened.page.get_by_text("Save as SVG").click()
    assert download.value.suggested_filename == "curves-demo.svg"
    assert "a query, mean" in Path(download.value.path()).read_text()


OUTSIDE = """[...document.querySelectorAll('body *')].filter(e => e.getClientRects().length && !e.closest('svg')
    && !e.parentElement.closest('.scroll') && e.getBoundingClientRect().right > innerWidth + 1)
    .map(e => e.tagName + e.id)"""


@pytest.mark.parametrize("width", [420, 900, 1400])
def test_at_every_width_nothing_is_cut_off_and_the_page_is_not_endless(opened: SimpleNamespace, width: int) -> None:
    page = opened.page
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_function("width => document.querySelector('.main-svg').clientWidth <= width", arg=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.documentElement.scrollHeight") < 6000
    assert page.evaluate(OUTSIDE) == []
    assert opened.errors == []
