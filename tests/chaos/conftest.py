"""What the chaos tests share: a seed, a count of all that was done, and runs that are killed and resumed.

``make chaos`` runs them; ``CHAOS_SEED`` chooses other moments. The plain test suite leaves them out.
"""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from chaos_runs import Job
from command_line import make_environment

SEED = int(os.environ.get("CHAOS_SEED", "0"))
_tally: Counter[str] = Counter()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The counts, which are what ``make chaos`` is for."""
    terminalreporter.section(f"chaos, CHAOS_SEED={SEED}")
    kills = sum(count for what, count in _tally.items() if what.startswith("kill -9"))
    terminalreporter.line(f"{kills:6} random kills in all, of which")
    for what, count in sorted(_tally.items()):
        terminalreporter.line(f"{count:6} {what}")


@pytest.fixture
def tally() -> Counter[str]:
    """What was done and seen, printed at the end."""
    return _tally


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> Random:
    """Of this test alone, so that it can be repeated by itself."""
    return Random(f"{SEED} {request.node.name}")


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """As of the end-to-end tests, with the hook that kills."""
    return make_environment(tmp_path_factory.mktemp("cache"), Path(__file__).parent / "hook")


@pytest.fixture
def job(environment: dict[str, str], tmp_path: Path) -> Callable[..., Job]:
    """Makes a command of ``run.py`` with a working directory of its own."""

    def make(*arguments: str, cwd: Path | None = None, **env: str) -> Job:
        return Job(list(arguments), cwd or tmp_path / "cwd", {**environment, **env})

    return make
