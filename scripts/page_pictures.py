"""python scripts/page_pictures.py [CHECKOUT]: the pictures of docs/page.md, of the real page in a real browser.

With the folder of a checkout of an earlier commit, that one's page is photographed instead, as page-before.png. With
``--documents DIR``, the page is photographed over pytest's documentation, on a screen and on a phone; DIR is the folder
of ``benchmarks/judged_prompts.py``. Needs the extras ui and dev, and takes a minute.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts"), str(ROOT / "benchmarks")]  # this checkout's code and scripts

from judged_prompts import fetch  # type: ignore[import-not-found]  # noqa: E402
from mlflow_pictures import opened, save, served  # noqa: E402

from ragtune.superprompt.stages.base import ORDER  # noqa: E402

QUESTION = "why is my bread dense"
REAL_QUESTION = "Our CI needs JUnit XML reports with a custom property per test. How do we produce them?"
HEIGHT = 1150
PHONE = (390, 844)


def main() -> int:
    """Write the pictures, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", nargs="?", type=Path)
    parser.add_argument("--documents", type=Path)
    arguments = parser.parse_args()
    if arguments.documents is not None:
        return _real_documents(arguments.documents)
    earlier = arguments.checkout.resolve() if arguments.checkout else None
    command = [sys.executable, "-m", "ragtune.superprompt.page"]
    with served(command, "--port", "/_stcore/health", earlier or ROOT) as url, opened() as page:
        if earlier is not None:
            _answered(page, url, "page-before")
            return 0
        page.goto(url)
        for name in ORDER[:4]:
            _run(page, name)
        save(page, "page-reranked", HEIGHT)
        for name in ORDER[4:]:
            _run(page, name)
        save(page, "page-final", HEIGHT)
        _answered(page, url, "page-after")
        page.goto(url)
        _ask(page, "")
        page.get_by_role("button", name=_title(ORDER[0])).click()
        page.get_by_text("the prompt is empty").wait_for()
        page.mouse.move(0, 0)  # away from the button, whose help covers what is to be seen
        save(page, "page-error", HEIGHT)
    return 0


def _real_documents(directory: Path) -> int:
    """A natural prompt over pytest's documentation."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "pytest"
        for path, text in fetch(directory, "pytest")["pytest"].items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "ragtune.superprompt.page", "--corpus", str(folder)]
        with served(command, "--port", "/_stcore/health", ROOT) as url, opened() as page:
            _answered(page, url, "page-pytest", REAL_QUESTION)
            page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
            page.get_by_test_id("stMain").evaluate("part => part.scrollTo(0, 760)")
            save(page, "page-phone", PHONE[1], PHONE[0])
    return 0


def _answered(page: Any, url: str, name: str, question: str = QUESTION) -> None:
    """A question, all eight stages, and what was selected for it."""
    page.goto(url)
    _ask(page, question)
    page.get_by_role("button", name="Auto").click()
    page.get_by_role("button", name=f"✓ {_title(ORDER[-1])}", exact=True).wait_for()
    page.mouse.move(0, 0)
    save(page, name, HEIGHT)


def _ask(page: Any, prompt: str) -> None:
    page.get_by_label("Your prompt").fill(prompt)
    page.get_by_label("Your prompt").press("Control+Enter")


def _run(page: Any, name: str) -> None:
    page.get_by_role("button", name=_title(name), exact=True).click()
    page.get_by_role("button", name=f"✓ {_title(name)}", exact=True).wait_for()


def _title(name: str) -> str:
    return name.replace("_", " ")


if __name__ == "__main__":
    sys.exit(main())
