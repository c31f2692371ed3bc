"""The page, run by Streamlit's own test runner: what is drawn, enabled and said after each click."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from patience import HANG_S

from ragtune.superprompt.stages.base import ORDER

BREAD = (
    "# Bread\n\nSourdough needs a lively starter and a long rise.\n\n## Crumb\n\nA gummy crumb means it was cut hot."
)
HOSTILE = (
    "Sourdough ![x](http://example.invalid/x.png) <img src='http://example.invalid/y.png'> <script>alert(1)</script>"
)
PROMPT = "## Task\nExplain why my sourdough crumb is gummy.\n\n## Format\nA list"

APP = Path(__file__).parents[3] / "ragtune" / "superprompt" / "page" / "app.py"
AppTest = Any
Start = Callable[..., AppTest]


@pytest.fixture
def corpus_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "bread.md").write_text(BREAD, encoding="utf-8")
    (folder / "hostile.txt").write_text(HOSTILE, encoding="utf-8")
    (folder / "ships.txt").write_text("A ship at anchor swings with wind and tide.", encoding="utf-8")
    return folder


@pytest.fixture
def start(corpus_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    monkeypatch.setenv("RAGTUNE_PAGE_CORPUS", str(corpus_folder))

    def run(prompt: str = PROMPT) -> AppTest:
        from streamlit.testing.v1 import AppTest

        page = AppTest.from_file(str(APP), default_timeout=HANG_S).run()
        return checked(page.text_area(key="prompt").set_value(prompt).run())

    return run


def checked(page: AppTest) -> AppTest:
    """No script of the page may end in a traceback."""
    assert not page.exception, page.exception
    return page


def click(page: AppTest, *names: str) -> AppTest:
    for name in names:
        checked(page.button(key=name if name in ("auto", "answer") else f"stage_{name}").click().run())
    return page


def enabled(page: AppTest) -> list[str]:
    return [name for name in ORDER if not page.button(key=f"stage_{name}").disabled]


def said(elements: Any) -> str:
    """What messages say, without the escapes that keep Markdown out of them."""
    return " | ".join(element.value.replace("\\", "") for element in elements)


def box(page: AppTest) -> str:
    return page.code[0].value if page.code else ""


def test_the_stages_run_by_hand_in_order_and_each_enables_the_next(start: Start) -> None:
    page = start()
    for name, following in zip(ORDER, [*ORDER[1:], ORDER[-1]], strict=True):
        click(page, name)
        assert not page.error, said(page.error)
        assert enabled(page) == [ORDER[0], following]
        assert page.button(key=f"stage_{name}").label.startswith("✓")
    for block in ("# System", "# Prompt", "# S_CTX", "# Attachments"):
        assert block in box(page)
    assert "A gummy crumb means it was cut hot." in box(page)
    assert list(page.table[0].value["stage"]) == [name.replace("_", " ") for name in ORDER]
    assert "normalized_map" in page.json[0].value
    by_hand = box(page)
    assert box(click(start(), "auto")) == by_hand


def test_a_failed_stage_says_what_to_do_and_leaves_everything_as_it_was(start: Start) -> None:
    page = click(start(prompt="   "), ORDER[0])
    assert "write what is to be done" in said(page.error)
    assert enabled(page) == [ORDER[0]]
    checked(page.text_area(key="prompt").set_value(PROMPT).run())
    assert not click(page, ORDER[0]).error


def test_a_key_typed_as_the_name_of_a_variable_is_refused_and_not_repeated(start: Start) -> None:
    page = start()
    checked(page.text_area(key="settings").set_value("llm: {model: m, api_key_env: sk-not-a-name}").run())
    assert "NAME of an environment variable" in said(page.error)
    assert "sk-not-a-name" not in said(page.error)
    assert enabled(page) == []


def test_markup_of_documents_is_shown_and_never_rendered(start: Start) -> None:
    page = click(start(HOSTILE), "auto")
    assert any("<script>alert(1)</script>" in code.value for code in page.code)  # code blocks show their text
    rendered = [*page.markdown, *page.caption, *page.info, *page.warning, *page.get("html")]
    assert not any("example.invalid" in str(element) for element in rendered)
