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
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING

import ragtune
from ragtune import __version__
from ragtune.cli.harness import HOW, find_harness
from ragtune.core.arguments import check_number

if TYPE_CHECKING:
    from ragtune.services.probes import Finding


_CORPORA = ("corpus.jsonl*", "*/corpus.jsonl*")

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
    parser.add_argument(
        "--data", metavar="DIR", type=Path, action="append", default=[], help="a folder of collections; repeatable"
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
    _tell(_data(arguments.data))
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
    yield "\nHardware"
    yield f"  processors   {os.cpu_count()}"
    yield f"  GPU          {_gpu()}"


def _data(folders: Sequence[Path]) -> Iterator[str]:
    harness = find_harness()
    yield "\nData"
    yield f"  scores, answers and indexes are kept in {_cache()}"
    yield f"  experiment harness: {harness or f'none: {HOW}'}"
    for folder in [Path(ragtune.__file__).with_name("data"), *folders]:
        found = sorted(file.parent for pattern in _CORPORA for file in folder.glob(pattern))
        yield f"  {folder}{'' if found else ': no collection, which is a folder with a corpus.jsonl'}"
        yield from (f"    {place.name:<21} {_state(place)}" for place in dict.fromkeys(found))


def _state(folder: Path) -> str:
    """What a BEIR folder can be used for."""
    if not any(folder.glob("queries.jsonl*")):
        return "no queries.jsonl: documents alone cannot be replayed"
    judged = "judgments" if any(folder.glob("qrels/*")) else "no judgments: quality is agreement with full reranking"
    if any(folder.glob("scores/*")):
        return f"{judged}, recorded scores"
    return f"{judged}, no recorded scores: ragtune score --out {folder}/scores/NAME.parquet dataset=beir " + (
        f"dataset.path={folder} reranker=cross_encoder reranker.model=MODEL"
    )


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
    from ragtune.data.caches.diskcache import default_cache_dir
    from ragtune.services.probes import find_obstacle

    folder = default_cache_dir()
    obstacle = find_obstacle(folder)
    return f"{folder}{f', and cannot be: nothing can be put into {obstacle}' if obstacle else ''}"
