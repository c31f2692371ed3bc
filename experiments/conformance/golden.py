"""Golden decisions: fixed inputs in ``v<spec>/``, and the decisions of every estimator and scheduler on them.

Each run checks those of its own estimator and scheduler, once for the same code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hydra.utils import get_class

from experiments.config.compose import compose
from experiments.config.options import leaf
from experiments.config.paths import CONF
from experiments.config.sources import Sources
from experiments.config.targets import targets_of
from experiments.replay.build import build_session
from ragtune.core.output import ControllerOutput
from ragtune.data.caches.diskcache import DiskCache

SPECS = {"decisions": "0.55.0", "canonical": "1.1.0"}
"""The suites, and the version of the specification that each holds the code to.

The canonical one repeats that of ragtune.canonical.conformance, so that a run need not load the canonical blocks."""

FIXTURES = Path(__file__).with_name(f"v{SPECS['decisions']}")
DECISIONS = FIXTURES / "decisions"

BUDGET_DOCS = 12  # enough for several batches, and fewer than the pool holds

COUNTERPARTS = {"estimator": ("greedy", "settled"), "scheduler": ("baseline", "uncertainty")}
"""The schedulers that every estimator is pinned with, and the estimators that every scheduler is pinned with.

The first of each two is the simplest one; the second reads, or gives, the uncertainty of estimates too."""

COMPARING = ("windows",)
"""The schedulers that an estimator is pinned with which asks for windows: no other one sends them."""

_CHOSEN = {"dataset": "beir", "retriever": "runs", "budget": "unlimited"}

Decisions = dict[str, dict[str, dict[str, str]]]
"""What one component decides, by counterpart and query id: ``stop``, ``charged``, ``batches`` and ``order``, each as
words on one line. Batches are separated by bars."""


def components() -> list[str]:
    """All estimators and schedulers that have a conf file, as ``group/name``."""
    return [f"{group}/{file.stem}" for group in COUNTERPARTS for file in sorted((CONF / group).glob("*.yaml"))]


def decide(component: str) -> Decisions:
    """Let one component decide on the fixed inputs."""
    group, name = component.split("/")
    config = _config(group, name)
    compares = getattr(get_class(config[group]["_target_"]), "compares", False)
    decisions = {}
    for other in COMPARING if compares else COUNTERPARTS[group]:
        scheduler = config if group == "scheduler" else _config("scheduler", other)
        estimator = config if group == "estimator" else _config("estimator", other)
        decisions[other] = _decided({**estimator, "scheduler": scheduler["scheduler"]})
    return decisions


def differences() -> list[str]:
    """Where the decisions of today differ from the pinned ones, one line each; an empty list means conformance."""
    now = components()
    pinned = {f"{file.parent.name}/{file.stem}" for file in _pinned_files()}
    found = [f"{component}: pinned, but there is no such component" for component in sorted(pinned - set(now))]
    for component in now:
        if component in pinned:
            found += differences_of(component)
        else:
            found.append(f"{component}: not pinned: ragtune conformance --update pins it")
    return found


def differences_of(component: str) -> list[str]:
    """As :func:`differences`, of one component; that it cannot be built or run is a difference too."""
    try:
        now = decide(component)
    except Exception as error:
        return [f"{component}: {type(error).__name__}: {error}"]
    pinned: Decisions = json.loads(_file(component).read_text(encoding="utf-8"))
    if (ours := _places(now)) != (theirs := _places(pinned)):
        return [f"{component}: pinned are {sorted(theirs)}, decided were {sorted(ours)}"]
    return [
        f"{component} with {counterpart}, query {query_id}: {what} is {is_now}, pinned is {expected}"
        for counterpart, query_id in ours
        for what, expected in pinned[counterpart][query_id].items()
        if (is_now := now[counterpart][query_id][what]) != expected
    ]


def _places(decisions: Decisions) -> list[tuple[str, str]]:
    return [(counterpart, query_id) for counterpart, queries in decisions.items() for query_id in queries]


def pin() -> None:
    """Make the decisions of today the golden ones: one file a component, none of components that are gone."""
    texts = {_file(component): _lines(decide(component)) for component in components()}
    for file in set(_pinned_files()) - set(texts):
        file.unlink()
    for file, text in texts.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def _pinned_files() -> Iterator[Path]:
    return DECISIONS.glob("*/*.json")


def _file(component: str) -> Path:
    return DECISIONS / f"{component}.json"


def _lines(decisions: Decisions) -> str:
    blocks = []
    for counterpart, queries in decisions.items():
        lines = [f"  {json.dumps(query_id)}: {json.dumps(decision)}" for query_id, decision in queries.items()]
        blocks.append(f" {json.dumps(counterpart)}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _decided(config: dict[str, Any]) -> dict[str, dict[str, str]]:
    session = build_session(config)
    queries = session.dataset.queries.items()
    return {query_id: _digest(session.controller.run(text, query_id=query_id)) for query_id, text in queries}


def _digest(output: ControllerOutput) -> dict[str, str]:
    spent = output.history[-1].cost
    batches = [" ".join(event.details["doc_ids"]) for event in output.trace.find("propose")]
    return {
        "stop": output.stop.reason,
        "charged": f"{spent.docs} docs, {spent.calls} calls, {spent.tokens} tokens",
        "batches": " | ".join(batches),
        "order": " ".join(output.ranking),
    }


@cache
def _config(group: str, name: str) -> dict[str, Any]:
    """A whole configuration for one component, the others at their defaults; composing one takes longer than a pair."""
    return compose(
        [
            *(f"{chosen}={value}" for chosen, value in _CHOSEN.items()),
            f"dataset.path={FIXTURES}",
            f"retriever.paths={FIXTURES / 'bm25.run'}",
            f"{group}={name}",
            f"reranker.scores={FIXTURES / 'scores.run'}",
            "reranker.scale=identity",
            f"budget.max_reranker_docs={BUDGET_DOCS}",
        ]
    )


def conformance_of(config: Mapping[str, Any]) -> str:
    """``passed``, or ``failed`` with the first difference; and the classes that no golden decision covers."""
    found, without = [], []
    for group in COUNTERPARTS:
        name, target = leaf(config, group), str(config[group]["_target_"])
        file = CONF / group / f"{name}.yaml"
        if file.is_file() and target in targets_of([file]) and _file(f"{group}/{name}").is_file():
            found += _differences(group, name)
        else:
            without.append(target)
    said = [f"failed: {found[0]}"] if found else ["passed"] if len(without) < len(COUNTERPARTS) else []
    return "; ".join([*said, *([f"no golden decisions for {', '.join(without)}"] if without else [])])


@cache
def _differences(group: str, name: str) -> list[str]:
    (other,) = COUNTERPARTS.keys() - {group}
    conf = [CONF / group / f"{name}.yaml", *(CONF / other / f"{each}.yaml" for each in COUNTERPARTS[group])]
    conf += [CONF / "scheduler" / f"{each}.yaml" for each in COMPARING]
    data = [*conf, *sorted(FIXTURES.glob("*.*")), _file(f"{group}/{name}")]
    modules = {__name__, *_SHARED, *targets_of(conf)}
    key = f"{group}/{name} {_sources().digest(sorted(modules), data)}"

    def save(found: list[str], folder: Path) -> None:
        (folder / _KEPT).write_text(json.dumps(found), encoding="utf-8")

    def load(folder: Path) -> list[str]:
        known: list[str] = json.loads((folder / _KEPT).read_text(encoding="utf-8"))
        return known

    return DiskCache("conformance").fetch(key, lambda: differences_of(f"{group}/{name}"), save, load)


_KEPT = "differences.json"

_SHARED = ("experiments.datasets.beir", "ragtune.retrievers.runs", "ragtune.rerankers.replay")
"""Modules of the fixed inputs, which the golden decisions name in their configuration only."""


@cache
def _sources() -> Sources:
    return Sources()
