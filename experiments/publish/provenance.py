"""Where a result comes from: code, configuration, data, conformance."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from experiments.config.names import leaf
from experiments.config.paths import PROJECT_ROOT
from experiments.conformance.check import conformance_of
from experiments.datasets.dataset import Dataset
from ragtune import __version__


def provenance(config: Mapping[str, Any], overrides: list[str], dataset: Dataset) -> dict[str, Any]:
    """Where a result comes from, as fields of a :class:`~experiments.evaluate.summary.Summary`.

    Args:
        config: plain data.
        overrides: choices of the command line.
        dataset: the collection.
    """
    conformance = conformance_of(config)
    blocks = {}
    if canonical := conformance.canonical:
        blocks = {"conformance_canonical": canonical.line, "conformance_canonical_spec": canonical.spec}
    return {
        "overrides": overrides,
        "documents": len(dataset.corpus),
        "corpus_digest": dataset.corpus.digest,
        "seed": config["seed"],
        "conformance": conformance,
        "tags": {
            "git_sha": git_sha(),
            "dataset": dataset.name,
            "ragtune_version": __version__,
            **{group: leaf(config, group) for group in _POLICY_GROUPS},
            **blocks,
        },
    }


_POLICY_GROUPS = ("retriever", "reformulator", "expander", "estimator", "scheduler", "reranker", "assembler")


@lru_cache(maxsize=1)
def git_sha() -> str:
    """The commit that is checked out, with ``-dirty`` if tracked files outside results/ differ; or ``unknown``."""
    try:
        sha = _git("rev-parse", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)results")
        return f"{sha}-dirty" if changed else sha
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    if not (PROJECT_ROOT / ".git").exists():  # a wheel: the commit of a repository around it is not that of this code
        raise FileNotFoundError(PROJECT_ROOT / ".git")
    command = ["git", "--no-optional-locks", "-C", str(PROJECT_ROOT), *arguments]
    # The words are those above, there is no shell, and the git on PATH is the user's own.
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603
