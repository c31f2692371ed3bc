"""Show what is installed and configured, what is missing, and how to get it.

The command asks the servers of the environment: the language model's for its list of models, PostgreSQL for its
version, MLflow and rerank servers for their health pages. Nothing is billed, loaded or changed, and
no secret is shown. The exit code is 1 if a configured server cannot be used.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING

from ragtune import __version__
from ragtune.cli.harness import HOW, find_harness
from ragtune.core.arguments import check_number

if TYPE_CHECKING:
    from ragtune.services.probes import Finding


_FOR = {
    "experiments": "run.py of a checkout: Hydra, MLflow, measures",
    "models": "cross-encoders and embeddings on this machine",
    "llm": "language models and rerank servers",
    "postgres": "collections in PostgreSQL",
    "services": "ragtune serve and ragtune mcp",
    "telemetry": "spans of the rerank API",
    "acurank": "estimator=acurank",
    "ui": "the SuperPrompt page",
    "optuna": "hydra/sweeper=tune",
    "onnx": "reranker.backend=onnx",
    "ray": "executor=ray",
    "submitit": "hydra/launcher=submitit_slurm",
    "report": "HTML reports of studies",
    "pyterrier": "ragtune.frameworks.pyterrier",
    "langchain": "ragtune.frameworks.langchain",
    "llamaindex": "ragtune.frameworks.llamaindex",
    "haystack": "ragtune.frameworks.haystack",
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
    """Options of the command."""
    parser.add_argument(
        "--url", metavar="URL", action="append", default=[], help="a further rerank server to check; repeatable"
    )
    parser.add_argument("--timeout", metavar="S", type=float, default=5.0, help="seconds to wait for a server")
    parser.add_argument("--offline", action="store_true", help="contact no server")


def run(arguments: argparse.Namespace) -> int:
    """Print one line a finding; what is not installed or not configured is no failure.

    Raises:
        ConfigError: on a URL that is none or holds a password, or a time out of range.
    """
    from ragtune.llm.credentials import check_base_url

    for url in arguments.url:
        check_base_url("--url", url, "RERANK_API_KEY")
    timeout_s = check_number("--timeout", arguments.timeout, 0.1, 60.0)
    _tell(_installation())
    _tell(_folders())
    _tell(_environment())
    if arguments.offline:
        return 0
    _tell(["", "Servers"])
    asked = _servers(arguments.url, timeout_s)
    wrong = 0
    for name, finding in asked:
        wrong += finding.is_well is False
        _tell([f"  {'!' if finding.is_well is False else ' '} {name:<15} {finding.text}"])
    if wrong:
        _tell(["", f"{wrong} of the servers that are configured cannot be used."])
    return 1 if wrong else 0


def _tell(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _servers(urls: Sequence[str], timeout_s: float) -> Iterator[tuple[str, Finding]]:
    from ragtune.services import probes

    yield "language model", probes.probe_language_model(timeout_s)
    yield "PostgreSQL", probes.probe_postgres(timeout_s)
    yield "MLflow", probes.probe_tracking(timeout_s)
    for url in urls:
        yield "rerank server", probes.probe_rerank_server(url, timeout_s)


def _installation() -> Iterator[str]:
    yield f"ragtune {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    yield f"  {Path(__file__).parents[2]}"
    yield "\nExtras"
    for extra, purpose in _FOR.items():
        missing = [name for name in _packages(extra) if _version(name) is None]
        state = f"{_listed(missing)} missing: pip install 'ragtune[{extra}]'" if missing else "installed"
        yield f"  {extra:<12} {purpose:<50} {state}"


def _folders() -> Iterator[str]:
    yield "\nFolders"
    yield f"  scores, answers and indexes are kept in {_cache()}"
    yield f"  experiment harness: {find_harness() or f'none: {HOW}'}"


def _environment() -> Iterator[str]:
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


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _cache() -> str:
    from ragtune.data.caches.diskcache import default_cache_dir
    from ragtune.services.probes import find_obstacle

    folder = default_cache_dir()
    obstacle = find_obstacle(folder)
    return f"{folder}{f', and cannot be: nothing can be put into {obstacle}' if obstacle else ''}"
