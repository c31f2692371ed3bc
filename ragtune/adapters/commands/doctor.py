"""What is installed here, what is missing, and how to get it. Nothing is sent, loaded or changed."""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from ragtune import __version__

NAME = "doctor"
SUMMARY = "tell what is installed, what is missing and how to get it"

_FOR = {
    "experiments": "run.py of a checkout: Hydra, MLflow, measures",
    "models": "cross-encoders and embeddings on this machine",
    "llm": "language models and rerank servers",
    "postgres": "collections in PostgreSQL",
    "services": "ragtune serve and ragtune mcp",
    "telemetry": "spans of the rerank API",
    "ui": "the SuperPrompt page",
    "ray": "executor=ray",
    "report": "HTML reports of studies",
    "pyterrier": "ragtune.adapters.pyterrier",
    "langchain": "ragtune.adapters.langchain",
    "llamaindex": "ragtune.adapters.llamaindex",
    "haystack": "ragtune.adapters.haystack",
    "testing": "the contract suites for components of your own",
}
"""What users need each extra for; ``dev`` is for those who work on RAGtune."""

_VARIABLES = (
    "RAGTUNE_API_KEY",
    "RAGTUNE_DSN",
    "RAGTUNE_CACHE",
    "MLFLOW_TRACKING_URI",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "CO_API_KEY",
    "JINA_API_KEY",
    "VOYAGE_API_KEY",
    "RERANK_API_KEY",
    "HF_HUB_OFFLINE",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command has no options."""


def run(arguments: argparse.Namespace) -> int:
    """Print one line a finding; what is missing is no failure."""
    sys.stdout.write("".join(f"{line}\n" for line in _findings()))
    return 0


def _findings() -> Iterator[str]:
    yield f"ragtune {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    yield f"  {Path(__file__).parents[2]}"
    yield "\nExtras"
    for extra, purpose in _FOR.items():
        missing = [name for name in _packages(extra) if _version(name) is None]
        state = f"{_listed(missing)} missing: pip install 'ragtune[{extra}]'" if missing else "installed"
        yield f"  {extra:<12} {purpose:<50} {state}"
    yield "\nHardware"
    yield f"  processors   {os.cpu_count()}"
    yield f"  GPU          {_gpu()}"
    yield "\nData"
    yield f"  scores and indexes are kept in {_cache()}"
    yield f"  checkout with run.py and conf/: {_checkout()}"
    yield "\nEnvironment"
    for name in _VARIABLES:
        yield f"  {name:<20} {'set' if name in os.environ else 'not set'}"  # what it holds may be a secret


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


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _gpu() -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return "none that nvidia-smi would tell of"
    asked = [program, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603 - by its path
    except (OSError, subprocess.SubprocessError):
        return "nvidia-smi does not answer"
    return "; ".join(told.stdout.split("\n")).strip("; ") or "none"


def _cache() -> str:
    from ragtune.data.diskcache import AUTO, resolve_cache_dir

    return str(resolve_cache_dir(AUTO))


def _checkout() -> str:
    here = Path(__file__).parents[3]
    return str(here) if (here / "run.py").is_file() else "none; clone the repository for experiments"
