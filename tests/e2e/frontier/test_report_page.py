"""report.html in a real browser, from disk, without a network."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
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
        page.wait_for_selector("#progress .main-svg")
        yield SimpleNamespace(page=page, requests=requests, errors=errors, address=address)


def test_it_asks_for_nothing_but_itself_and_raises_no_error(opened: SimpleNamespace) -> None:
    assert opened.requests == [opened.address]
    assert opened.errors == []


def test_the_recommendation_comes_first_and_is_the_one_of_the_tables(
    opened: SimpleNamespace, frontier: SimpleNamespace
) -> None:
    shown = opened.page.inner_text("#advice")
    title = shown.splitlines()[0]
    assert title in (frontier.folder / "frontier.md").read_text().splitlines()[2]
    assert opened.page.inner_text("body").index(title) < opened.page.inner_text("body").index("Quality against cost")


def test_no_marker_covers_another_and_the_figure_says_what_0_documents_are(opened: SimpleNamespace) -> None:
    page = opened.page
    for box in page.locator("#chips input").all():
        box.check()
    boxes = [
        p.bounding_box()
        for p in page.locator("#curves .points path").all()
        if p.evaluate("e => e.style.opacity") != "0"
    ]
    middles = [(b["x"] + b["width"] / 2, b["y"] + b["height"] / 2) for b in boxes if b]
    assert len(middles) > 3
    for i, (x, y) in enumerate(middles):
        assert all((x - u) ** 2 + (y - v) ** 2 > 8**2 for u, v in middles[:i])
    assert "fixed depth at 0 documents: 0.519" in page.text_content("#curves")
    assert "Fixed depth then has the first stage's order" in page.inner_text("#curves-note")


def test_the_table_shows_what_the_csv_says(opened: SimpleNamespace, frontier: SimpleNamespace) -> None:
    shown = [row.split("\t") for row in opened.page.locator("#means tbody tr").all_inner_texts()]
    table = pd.read_csv(frontier.folder / "frontier.csv").set_index(["label", "budget"])["nDCG@10"]
    for label, *figures in shown:
        for budget, figure in zip((5, 10), figures, strict=True):
            assert float(figure.strip("▲▼△▽")) == pytest.approx(table[label, budget], abs=0.00051)


def test_typed_prices_move_the_axis_the_costs_and_the_front(opened: SimpleNamespace, frontier: SimpleNamespace) -> None:
    page = opened.page
    page.select_option("#unit", "usd")
    for name, price in (("usd_per_unit", "1"), ("docs_per_unit", "4"), ("usd_per_doc", "0.5")):
        page.fill(f"[data-price={name}]", price)
    assert page.text_content("#curves .xtitle").startswith("dollars")
    queries = pd.read_parquet(frontier.folder / "per_query.parquet").set_index(["policy", "budget"])
    units = np.maximum(queries["calls"], np.ceil(queries["docs"] / 4))
    expected = (units + 0.5 * queries["docs"]).groupby(level=[0, 1]).mean()
    rows = [row.split("\t")[1:] for row in page.locator("#costs tbody tr").all_inner_texts()]
    for policy, figures in zip(("fixed_depth", "settled"), rows, strict=True):
        for budget, figure in zip(("5", "10"), figures, strict=True):
            assert float(figure.strip("$")) == pytest.approx(expected[policy, budget], abs=0.0051)
    assert "dollars" in page.inner_text("#front-table thead")
    assert "In dollars" in page.inner_text("#advice")
    page.select_option("#unit", "recorded_ms")
    assert page.inner_text("#h-costs").endswith("milliseconds, as recorded")
    page.select_option("#unit", "docs")


def test_a_picked_query_shows_its_steps_with_why_and_what_they_cost(opened: SimpleNamespace) -> None:
    page = opened.page
    page.select_option("#query", "q02")
    page.locator("#traces summary", has_text="fixed depth").first.click()
    for policy in ("fixed_depth", "settled"):
        rows = page.locator(f"#traces table[data-policy={policy}] tbody tr:not(.step)")
        assert rows.count() == 10
        number, document, first, estimate, score, *_, after, final = rows.first.locator("td").all_inner_texts()
        assert (number, len(document.splitlines())) == ("1", 2)
        assert "/" in estimate
        assert 0 <= float(score) <= 1
        assert min(int(first), int(after), int(final)) >= 1
    steps = page.locator("#traces table[data-policy=settled] tr.step").all_inner_texts()
    assert len(steps) > 1
    assert "granted (10 of 10 documents were left)" in steps[0]
    assert "Why: chance of change" in steps[0]
    assert "Paid so far: 10 documents; nDCG@10 now 0." in steps[-1]


def test_a_link_leads_to_a_query_and_the_keyboard_walks_on(opened: SimpleNamespace) -> None:
    page = opened.page
    page.goto(f"{opened.address}#collection=demo&query=q05&unit=calls&policy=settled&column=5")
    page.wait_for_function("document.getElementById('h-trace').textContent.includes('q05')")
    assert page.evaluate("document.activeElement.id") == "h-trace"
    assert page.input_value("#unit") == "calls"
    page.focus("#next")
    page.keyboard.press("Enter")
    walked = page.input_value("#query")
    assert walked != "q05"
    assert f"query={walked}" in page.url
    page.focus("#previous")
    page.keyboard.press("Space")
    assert page.input_value("#query") == "q05"
    page.select_option("#unit", "docs")


def test_the_list_of_queries_sorts_by_the_difference_and_leads_to_each(opened: SimpleNamespace) -> None:
    page = opened.page
    shown = []
    for _ in range(2):
        page.locator("[data-sort=difference]").press("Enter")
        figures = page.locator("#list tbody td:nth-child(2)").all_inner_texts()
        shown.append([float(text.replace("\N{MINUS SIGN}", "-").replace("±", "")) for text in figures])
    assert {tuple(sorted(shown[0])), tuple(sorted(shown[0], reverse=True))} == set(map(tuple, shown))
    last = page.locator("#list tbody a").last
    query = last.inner_text()
    last.press("Enter")
    page.wait_for_function("query => document.getElementById('query').value === query", arg=query)


def test_a_click_on_a_bar_picks_its_query(opened: SimpleNamespace) -> None:
    page = opened.page
    page.select_option("#query", index=0)
    last = page.locator("#query option").last.get_attribute("value")
    bar = page.locator("#bars .bars .point").last
    bar.scroll_into_view_if_needed()
    box = bar.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_function("query => document.getElementById('query').value === query", arg=last)


def test_budget_and_measure_change_what_is_compared(opened: SimpleNamespace) -> None:
    page = opened.page
    page.select_option("#column", "10")
    note = page.inner_text("#queries-note")
    page.select_option("#column", "5")
    assert page.inner_text("#queries-note") != note
    page.select_option("#measure", label="RR@10")
    assert "RR@10" in page.text_content("#curves .ytitle")
    page.select_option("#measure", label="nDCG@10")


OUTSIDE = """[...document.querySelectorAll('body *')].filter(e => e.getClientRects().length && !e.closest('svg')
    && !e.parentElement.closest('.scroll') && e.getBoundingClientRect().right > innerWidth + 1)
    .map(e => e.tagName + e.id)"""
LOOSE = (
    "[...document.querySelectorAll('table')].filter(e => getComputedStyle(e.parentElement).overflowX !== 'auto').length"
)


@pytest.mark.parametrize("width", [420, 800, 1280])
def test_at_every_width_nothing_is_cut_off(opened: SimpleNamespace, width: int) -> None:
    page = opened.page
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_function("width => document.querySelector('#curves .main-svg').clientWidth <= width", arg=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate(LOOSE) == 0
    assert opened.errors == []


def test_paper_has_no_controls_and_figures_as_wide_as_it_is(opened: SimpleNamespace) -> None:
    page = opened.page
    page.evaluate("""() => addEventListener('beforeprint', () => {
        window.printed = [...document.querySelectorAll('.js-plotly-plot .main-svg')].map(e => e.clientWidth) })""")
    assert page.pdf(format="A4").startswith(b"%PDF")
    assert set(page.evaluate("window.printed")) == {680}
    page.emulate_media(media="print")
    assert not page.locator("#unit").is_visible()
    assert page.locator("#traces table[data-policy=settled]").is_visible()
    page.emulate_media(media="screen")
