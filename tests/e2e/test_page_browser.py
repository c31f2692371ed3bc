"""The page in a real browser, served as ``make ui`` serves it, with real clicks."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from web_pages import NEEDS_CHROMIUM, browser_page, served

from ragtune.superprompt.stages.base import ORDER

pytestmark = [pytest.mark.browser, NEEDS_CHROMIUM]

ROOT = Path(__file__).parents[2]
BLOCKS = ("# System", "# Prompt", "# S_CTX", "# Attachments")


@pytest.fixture(scope="module")
def address(environment: dict[str, str]) -> Iterator[str]:
    """Where the page is served, over the demo collection, with no key in the environment."""
    keyless = {name: value for name, value in environment.items() if not name.startswith("OPENAI_")}
    command = [sys.executable, "-m", "ragtune.superprompt.page"]
    with served(command, "/_stcore/health", cwd=ROOT, env=keyless) as url:
        yield url


@pytest.fixture
def page(address: str) -> Iterator[Any]:
    """The page as a person first sees it; at the end, nothing may have been asked of any other host."""
    hosts: set[str | None] = set()
    with browser_page(1440, 1000) as page:
        page.on("request", lambda request: hosts.add(urlsplit(request.url).hostname))
        page.goto(address)
        button(page, ORDER[0]).wait_for()
        yield page
    assert hosts - {None, ""} == {"127.0.0.1"}


def button(page: Any, name: str) -> Any:
    return page.get_by_role("button", name=re.compile(rf"^(✓ )?{re.escape(name.replace('_', ' '))}$"))


def box(page: Any) -> str:
    return str(page.locator(".st-key-super_prompt code").inner_text())


def expect_done(page: Any, name: str) -> None:
    page.get_by_role("button", name=f"✓ {name.replace('_', ' ')}", exact=True).wait_for()


def test_all_eight_stages_by_clicks_with_only_the_next_one_enabled(page: Any) -> None:
    for place, name in enumerate(ORDER):
        later = ORDER[place + 1 :]
        assert all(button(page, other).is_disabled() for other in later)
        button(page, name).click()
        expect_done(page, name)
        said = page.get_by_test_id("stAlert").all_inner_texts()
        assert all("Reranked by" in text for text in said), said
    page.locator(".st-key-super_prompt code", has_text=BLOCKS[-1]).wait_for()  # drawn after the buttons
    text = box(page)
    places = [text.index(block) for block in BLOCKS]
    assert places == sorted(places)
    page.get_by_text("sourdough-02#0").first.wait_for()
    page.get_by_role("tab", name="Costs").click()
    page.get_by_role("cell", name="Prompt Builder").wait_for()


def test_an_uploaded_file_is_found_and_a_binary_one_is_refused(page: Any) -> None:
    texts = {"zebra.md": b"# Zebras\n\nZebras sleep standing in the savanna.", "broken.txt": b"\x00\x01"}
    uploads = [{"name": name, "mimeType": "text/plain", "buffer": text} for name, text in texts.items()]
    page.locator("input[type=file][multiple]").set_input_files(uploads)
    page.get_by_text("broken.txt: this is a binary file").wait_for()
    prompt = page.get_by_label("Your prompt")
    prompt.fill("Where do zebras sleep?")
    page.get_by_role("button", name="Auto").click()
    expect_done(page, ORDER[-1])
    page.get_by_text("zebra.md#0").first.wait_for()
    page.locator(".st-key-super_prompt code", has_text="Zebras sleep standing in the savanna.").wait_for()
