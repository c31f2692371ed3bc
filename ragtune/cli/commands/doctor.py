"""Show what is installed and configured, what is missing, and how to get it.

No server is asked, nothing is loaded or changed, and no secret is shown.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from ragtune import __version__
from ragtune.cli.harness import HOW, find_harness
from ragtune.data.caches.diskcache import default_cache_dir

_FOR = {
    "experiments": "ragtune run, study, advise: Hydra, MLflow, ...",
    "models": "cross-encoders and embeddings on this machine",
    "llm": "language models and rerank servers",
    "postgres": "collections in PostgreSQL",
    "documents": "PDF and HTML of ragtune ingest",
    "services": "ragtune serve and ragtune mcp",
    "telemetry": "spans of the rerank API",
    "acurank": "estimator=acurank",
    "ui": "the SuperPrompt page",
    "optuna": "hydra/sweeper=tune",
    "onnx": "reranker.backend=onnx, dtype=int8",
    "ray": "executor=ray",
    "submitit": "hydra/launcher=submitit_slurm",
    "pyterrier": "ragtune.frameworks.pyterrier",
    "langchain": "ragtune.frameworks.langchain",
    "llamaindex": "ragtune.frameworks.llamaindex",
    "haystack": "ragtune.frameworks.haystack",
    "mteb": "ragtune.frameworks.mteb",
    "tirex": "hydra/callbacks=tirex: a run's energy and memory",
    "testing": "the contract suites for components of your own",
}
"""What users need each extra for; ``dev`` is for those who work on RAGtune."""

VARIABLES = {
    "RAGTUNE_DSN": "PostgreSQL server",
    "RAGTUNE_CACHE": "folder of scores, answers and indexes",
    "RAGTUNE_API_KEY": "what clients of ragtune serve must say",
    "OPENAI_BASE_URL": "language model server",
    "OPENAI_API_KEY": "its key",
    "CO_API_KEY": "Cohere's rerank service",
    "JINA_API_KEY": "Jina's",
    "VOYAGE_API_KEY": "Voyage's",
    "RERANK_API_KEY": "key of any other rerank server",
    "MLFLOW_TRACKING_URI": "where runs are logged",
    "IR_DATASETS_HOME": "folder of dataset=irds",
    "HF_HUB_OFFLINE": "no model is downloaded",
    "XDG_CACHE_HOME": "caches, unless RAGTUNE_CACHE says",
    "XDG_DATA_HOME": "the embedded PostgreSQL",
}
"""Environment variables that are read, and what they say."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command has no options."""


def run(_: argparse.Namespace) -> int:
    """Print one line a finding; what is not installed or not configured is no failure."""
    sys.stdout.writelines(f"{line}\n" for line in _findings())
    return 0


def _findings() -> Iterator[str]:
    yield f"ragtune {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    yield f"  {Path(__file__).parents[2]}"
    yield "\nExtras"
    for extra, purpose in _FOR.items():
        missing = [name for name in _packages(extra) if not _is_installed(name)]
        state = f"{', '.join(missing)} missing: pip install 'ragtune[{extra}]'" if missing else "installed"
        yield f"  {extra:<12} {purpose:<50} {state}"
    yield "\nFolders"
    yield f"  scores, answers and indexes are kept in {default_cache_dir()}"
    yield f"  experiment harness: {find_harness() or f'none: {HOW}'}"
    yield "\nEnvironment"
    for name, meaning in VARIABLES.items():
        state = "set" if name in os.environ else "not set"  # what it holds may be a secret
        yield f"  {name:<20} {state:<8} {meaning}"


def _packages(extra: str) -> list[str]:
    """The distributions that an extra brings, those of the extras that it includes as well."""
    found: list[str] = []
    for line in requires("ragtune") or []:
        if re.search(rf"extra == ['\"]{extra}['\"]", line):
            name, _, inner = re.split(r"[\s;<>=!~]", line, maxsplit=1)[0].partition("[")
            if name != "ragtune":
                found.append(name)
            for included in inner.rstrip("]").split(",") if name == "ragtune" else ():
                found += _packages(included)
    return found


def _is_installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True
