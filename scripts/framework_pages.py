"""Run the code of docs/howto/frameworks/ as a reader does: each page in an empty environment of its own.

Takes minutes and the package index, so it is no test; the same code runs in the suite, where everything is installed.

    python scripts/framework_pages.py [PAGE ...]
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "howto" / "frameworks"


def check(page: Path) -> str:
    """What went wrong, or nothing.

    Raises:
        subprocess.CalledProcessError: if something cannot be installed.
    """
    text = page.read_text(encoding="utf-8")
    (install,) = re.findall(r"```sh\npip install (.*)\n```", text)
    wanted = shlex.split(install, comments=True)
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL)
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = f"{folder}/bin/python"
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *wanted], cwd=ROOT, check=True)  # noqa: S603 - of this checkout
        done = subprocess.run(  # noqa: S603 - of this checkout
            [python, "-c", code], capture_output=True, text=True, cwd=folder, check=False
        )
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    return "" if done.stdout == shown else f"prints\n{done.stdout}and the page says\n{shown}"


def main() -> int:
    """Check the pages that are named, or all."""
    problems = 0
    for page in [PAGES / f"{name}.md" for name in sys.argv[1:]] or sorted(PAGES.glob("*.md")):
        problem = check(page)
        problems += bool(problem)
        print(f"{page.stem}: {problem or 'as the page says'}", flush=True)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
