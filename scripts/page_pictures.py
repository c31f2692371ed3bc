"""python scripts/page_pictures.py [CHECKOUT]: the pictures of docs/page.md, of the real page in a real browser.

With the folder of a checkout of an earlier commit, that one's page is photographed instead, as page-before.png. Needs
the extras ui and dev, and takes a minute.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]  # this checkout's code, and the scripts beside this one

from mlflow_pictures import opened, save, served  # noqa: E402

from ragtune.superprompt.stages.base import ORDER  # noqa: E402

QUESTION = "why is my bread dense"
HEIGHT = 1150


def main() -> int:
    """Write the pictures, and return the exit code."""
    earlier = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
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


def _answered(page: Any, url: str, name: str) -> None:
    """The docs' own question, all eight stages, and what was selected for it."""
    page.goto(url)
    _ask(page, QUESTION)
    page.get_by_role("button", name="Auto").click()
    page.get_by_role("button", name=f"✓ {_title(ORDER[-1])}", exact=True).wait_for()
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
