"""Outcomes of the conformance suites for this version of the code: a check records them, and runs repeat them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from pydantic import ValidationError

from experiments.config.paths import CONF, PROJECT_ROOT
from experiments.evaluate.summary import Outcome
from ragtune.data.diskcache import AUTO, resolve_cache_dir

SPECS = {"decisions": "0.55.0", "canonical": "1.1.0"}
"""The suites, and the version of the specification that each holds the code to.

The canonical one repeats that of ragtune.canonical.conformance, so that a run need not load the canonical blocks."""

FIXTURES = PROJECT_ROOT / "tests" / "conformance" / f"v{SPECS['decisions']}"

SHOWN = 5
"""Number of differences that an outcome names."""


def record(suite: str, differences: Sequence[str]) -> Outcome:
    """Record in the cache folder how a suite ended for the code as it is now.

    Args:
        suite: one of :data:`SPECS`.
        differences: what the suite found, one line each; none means conformance.

    Raises:
        OSError: if the cache folder cannot be written.
    """
    outcome = Outcome(
        outcome="failed" if differences else "passed", spec=SPECS[suite], differences=list(differences[:SHOWN])
    )
    file = _file(suite)
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(".new")
    temporary.write_text(outcome.model_dump_json(), encoding="utf-8")
    temporary.replace(file)
    return outcome


def recorded(suite: str) -> Outcome:
    """The recorded outcome of a suite for the code as it is now; ``not checked`` if there is none.

    Args:
        suite: one of :data:`SPECS`.
    """
    try:
        if any(_folder().glob(f"{suite}-*")):  # else there is no need to know which code this is
            return Outcome.model_validate_json(_file(suite).read_bytes())
    except (OSError, ValidationError):
        pass
    return Outcome(outcome="not checked", spec=SPECS[suite])


def _file(suite: str) -> Path:
    return _folder() / f"{suite}-{code_digest()}.json"


def _folder() -> Path:
    cache = resolve_cache_dir(AUTO)
    assert cache is not None  # noqa: S101 -- AUTO always names one; for the type checker
    return cache / "conformance"


@cache
def code_digest() -> str:
    """SHA-256 of everything that an outcome depends on: code, configuration, fixtures, numerical libraries."""
    sha = sha256(" ".join(version(name) for name in ("numpy", "scipy", "scikit-learn", "PyStemmer")).encode())
    folders = (PROJECT_ROOT / "ragtune", PROJECT_ROOT / "experiments", CONF, FIXTURES)
    for file in sorted(f for folder in folders for f in folder.rglob("*") if f.suffix in _SOURCES):
        sha.update(file.relative_to(PROJECT_ROOT).as_posix().encode() + b"\0" + file.read_bytes())
    return sha.hexdigest()


_SOURCES = {".py", ".yaml", ".json", ".jsonl", ".run", ".tsv"}
