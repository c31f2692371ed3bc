"""Golden-vector conformance: fixed inputs, and the exact decisions that every estimator x scheduler takes on them.

The fixtures live in ``tests/conformance/v<spec>/``: a BEIR folder with a first-stage run and a score table, and
``decisions.json`` with, per pair and query, the batches, the final order and the charged cost.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, lru_cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from experiments.config.compose import compose
from experiments.config.paths import CONF, PROJECT_ROOT
from experiments.replay.build import build_session
from ragtune.core.output import ControllerOutput
from ragtune.data.diskcache import DiskCache

SPEC = "0.55.0"
FIXTURES = PROJECT_ROOT / "tests" / "conformance" / f"v{SPEC}"
DECISIONS = "decisions.json"
BUDGET_DOCS = 12
"""Documents that each golden query may rerank: several batches, and less than its pool."""

Decisions = dict[str, dict[str, Any]]
"""``{"estimator x scheduler": {query_id: {"batches", "order", "charged", "stop"}}}``."""


def decide(fixtures: Path = FIXTURES) -> Decisions:
    """What the code decides now, for every estimator and scheduler that has a conf file."""
    estimators, schedulers = _parts("estimator", fixtures), _parts("scheduler", fixtures)
    return {
        f"{e} x {s}": _decide_pair({**estimators[e], "scheduler": schedulers[s]["scheduler"]})
        for e in estimators
        for s in schedulers
    }


def differences(fixtures: Path = FIXTURES) -> list[str]:
    """Where today's decisions differ from the pinned ones, in words; empty means conformance."""
    pinned: Decisions = json.loads((fixtures / DECISIONS).read_text(encoding="utf-8"))
    now = decide(fixtures)
    found = [f"{pair}: not pinned" for pair in now if pair not in pinned]
    found += [f"{pair}: pinned, but there is no such pair" for pair in pinned if pair not in now]
    for pair in sorted(set(now) & set(pinned)):
        for query_id, expected in pinned[pair].items():
            found += [
                f"{pair}, query {query_id}: {what} is {now[pair][query_id][what]}, pinned is {value}"
                for what, value in expected.items()
                if now[pair][query_id][what] != value
            ]
    return found


@lru_cache(maxsize=1)
def check_golden() -> dict[str, Any]:
    """Outcome (``passed``, ``failed``, ``skipped`` where the fixtures are not shipped) and the spec version.

    The check runs once per version of the code; its outcome is kept in the cache folder.
    """
    if not (FIXTURES / DECISIONS).is_file():
        return {"outcome": "skipped", "spec": SPEC, "why": "the golden fixtures are not in this installation"}
    return kept_outcome("decisions", SPEC, differences)


def kept_outcome(suite: str, spec: str, find: Callable[[], list[str]]) -> dict[str, Any]:
    """Outcome, spec version and the first differences that ``find`` finds; computed once per version of the code."""

    def outcome() -> dict[str, Any]:
        try:
            found = find()
        except Exception as error:  # a component that cannot even be built fails conformance; it must not cost a result
            found = [f"{type(error).__name__}: {error}"]
        return {"outcome": "failed" if found else "passed", "spec": spec, "differences": found[:5]}

    return DiskCache("conformance").fetch(f"{suite} {_code_digest()}", outcome, _save, _load)


def _save(outcome: dict[str, Any], folder: Path) -> None:
    (folder / "outcome.json").write_text(json.dumps(outcome), encoding="utf-8")


def _load(folder: Path) -> dict[str, Any]:
    outcome: dict[str, Any] = json.loads((folder / "outcome.json").read_text(encoding="utf-8"))
    return outcome


def _parts(group: str, fixtures: Path) -> dict[str, dict[str, Any]]:
    """A whole configuration for each component of a group, the others at their defaults."""
    return {name: _config(group, name, fixtures) for name in sorted(p.stem for p in (CONF / group).glob("*.yaml"))}


def _decide_pair(config: dict[str, Any]) -> dict[str, Any]:
    session = build_session(config)
    outputs = {q: session.controller.run(text, query_id=q) for q, text in session.dataset.queries.items()}
    return {query_id: _digest(output) for query_id, output in outputs.items()}


def _digest(output: ControllerOutput) -> dict[str, Any]:
    spent = output.history[-1].cost
    return {
        "batches": [event.details["doc_ids"] for event in output.trace.find("propose")],
        "order": list(output.ranking),
        "charged": {"docs": spent.docs, "calls": spent.calls, "tokens": spent.tokens},
        "stop": output.stop.reason,
    }


def _config(group: str, name: str, fixtures: Path) -> dict[str, Any]:
    return compose(
        [
            "dataset=beir",
            f"dataset.path={fixtures}",
            "retriever=runs",
            f"retriever.paths={fixtures / 'bm25.run'}",
            f"{group}={name}",
            f"reranker.scores={fixtures / 'scores.run'}",
            "reranker.scale=identity",
            "budget=unlimited",
            f"budget.max_reranker_docs={BUDGET_DOCS}",
        ]
    )


@cache
def _code_digest() -> str:
    """SHA-256 of everything that the outcome depends on: code, configuration, fixtures, numerical libraries."""
    sha = sha256(" ".join(version(name) for name in ("numpy", "scipy", "scikit-learn", "PyStemmer")).encode())
    folders = (PROJECT_ROOT / "ragtune", PROJECT_ROOT / "experiments", CONF, FIXTURES)
    for file in sorted(f for folder in folders for f in folder.rglob("*") if f.suffix in _SOURCES):
        sha.update(file.relative_to(PROJECT_ROOT).as_posix().encode() + b"\0" + file.read_bytes())
    return sha.hexdigest()


_SOURCES = {".py", ".yaml", ".json", ".jsonl", ".run", ".tsv"}
