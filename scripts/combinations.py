"""python scripts/combinations.py: writes docs/components/combinations.md, the table of all combinations of parts.

It replays every estimator with every scheduler, budget and reformulator, and says which work and which are refused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import cycle, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.config.compose import compose, composed, plain
from experiments.config.paths import CONF, PROJECT_ROOT
from experiments.evaluate.outcomes import Outcomes, QueryOutcome, short_budgets, unused, warnings_of
from experiments.evaluate.record import UNITS, QueryRecord
from experiments.publish.files import write_text
from experiments.replay.build import Session, build_session, controller_of, require_fitting
from experiments.replay.component import component
from ragtune.core.errors import ConfigError
from ragtune.core.output import ControllerOutput
from ragtune.core.request.context import Request
from ragtune.core.types import FREE, CostObject
from ragtune.llm.client import LLMClient
from ragtune.rerankers.replay import ReplayReranker

QUERIES, DEPTH = 2, 30
"""The slice of the shipped collection that is replayed: its first queries, and documents that each retrieves."""

CASCADE = ["+reranker@rerankers.strong=replay", "+scheduler.limits.strong=5"]
"""The second reranker of a cascade, which is refused without one."""

PAGE = "docs/components/combinations.md"
"""The page that holds the table."""

WORKS, FREE_OF_CHARGE, WARNED, REFUSED, BROKEN = "works", "pays nothing", "warned", "refused", "broken"


class Cell(NamedTuple):
    """One combination.

    Attributes:
        estimator, scheduler, reformulator, budget: names of files in conf/.
        kind: ``works`` (documents are scored and the ranking follows the scores), ``pays nothing``, ``warned``,
            ``refused``, or ``broken`` (none of these).
        why: the refusal or the warning.
    """

    estimator: str
    scheduler: str
    reformulator: str
    budget: str
    kind: str
    why: str = ""


def names(group: str) -> list[str]:
    """The choices of a group."""
    return sorted(file.stem for file in (CONF / group).glob("*.yaml"))


def cells(*, in_turn: bool = False) -> Iterator[Cell]:
    """All combinations, each replayed on the slice of the shipped collection.

    With ``in_turn`` an estimator of windows meets every reformulator, since one scheduler alone suits it; other
    combinations meet one each, in turn.
    """
    made = {name: component({"budget": node}, "budget") for name, node in _files("budget").items()}
    limits = dict(
        sorted(made.items(), key=lambda named: (named[1].max_reranker_docs is None, named[1].max_reranker_docs))
    )
    sharing = [name for name in limits if name not in ("zero", "unlimited")]  # they differ in documents alone
    turns = cycle(names("reformulator"))
    for estimator, scheduler in product(names("estimator"), names("scheduler")):
        config, parts = _config("estimator", estimator), _session("estimator", estimator).parts
        config = {**config, "scheduler": _config("scheduler", scheduler)["scheduler"]}
        parts = {**parts, "scheduler": _session("scheduler", scheduler).parts["scheduler"]}
        few = in_turn and not (scheduler == "windows" and parts["estimator"].compares)
        turn = next(turns)
        for reformulator in [turn] if few else names("reformulator"):
            choice = (estimator, scheduler, reformulator)
            try:
                require_fitting(config, parts)
            except ConfigError as error:
                yield from (Cell(*choice, budget, REFUSED, str(error)) for budget in limits)
                continue
            parts["reformulator"] = _reformulator(reformulator)
            session = _session("estimator", estimator)
            rerankers = {**_session("scheduler", scheduler).rerankers, **session.rerankers}
            controller = controller_of(config, parts, rerankers)
            requests = [Request(session.dataset.queries[q], q) for q in session.dataset.query_ids[:QUERIES]]
            for group in (["zero"], sharing, ["unlimited"]):
                outputs = [controller.run_under(request, [limits[name] for name in group]) for request in requests]
                for name, answers in zip(group, zip(*outputs, strict=True), strict=True):
                    yield Cell(*choice, name, *_kind(answers, is_free=limits[name].max_reranker_docs == 0))


def _kind(outputs: Sequence[ControllerOutput], *, is_free: bool) -> tuple[str, str]:
    outcomes = Outcomes(QueryOutcome.of(QueryRecord.of(output)) for output in outputs)
    if not outcomes.column("charged")[:, UNITS.index("docs")].any():
        return (FREE_OF_CHARGE, "") if is_free else (BROKEN, "it pays nothing under a budget that is not 0")
    expected = short_budgets(outcomes) | unused(outcomes)
    if told := warnings_of(outcomes, compares_apart=False):
        return WARNED if told == expected else BROKEN, next(iter(told))
    if np.mean([_followed(output) for output in outputs]) > 0.0:
        return WORKS, ""
    return BROKEN, "it pays, and the top 10 is no better by the scores that it paid for"


def _followed(output: ControllerOutput) -> float:
    """By how much the top 10 has gained since before the first score, by the scores of the whole pool as grades."""
    first, last = output.history[0], output.history[-1]
    graded = _scores(output.query_id)
    before, after = (
        sum(graded[step.doc_ids[at]] / np.log2(2 + rank) for rank, at in enumerate(step.keys.argsort()[:10].tolist()))
        for step in (first, last)
    )
    return float(after - before)


@cache
def _scores(query_id: str) -> Mapping[str, float]:
    """What the recorded reranker says of all documents for a query."""
    session = _session("estimator", "baseline")
    recorded = cast(ReplayReranker, session.rerankers["default"])
    return recorded.table.scores(query_id, session.dataset.corpus.doc_ids)


def page(table: Sequence[Cell]) -> str:
    """The table in Markdown: a row for each estimator and scheduler, a column for each budget."""
    pairs = dict.fromkeys((cell.estimator, cell.scheduler) for cell in table)
    budgets = list(dict.fromkeys(cell.budget for cell in table))
    found = {name: [cell for cell in table if (cell.estimator, cell.scheduler) == name] for name in pairs}
    rows = [
        f"| `{estimator}` | `{scheduler}` | "
        + " | ".join(
            _in_short([cell for cell in found[estimator, scheduler] if cell.budget == name]) for name in budgets
        )
        + " |"
        for estimator, scheduler in pairs
    ]
    refusals = dict.fromkeys(cell.why for cell in table if cell.kind == REFUSED)
    named = {why.split()[0].removeprefix("estimator="): why.rpartition("experiment=")[2] for why in refusals}
    works = [f"| `{estimator}` | `experiment={preset}` | `windows` |" for estimator, preset in named.items()]
    head = ["estimator", "scheduler", *(f"`{name}`" for name in budgets)]
    return _TEXT.format(
        combinations=f"{len(pairs) * len(budgets) * len(names('reformulator')):,}",
        reformulators=", ".join(f"`{name}`" for name in names("reformulator")),
        queries=QUERIES,
        depth=DEPTH,
        works="\n".join(works),
        head=f"| {' | '.join(head)} |\n|{'---|' * len(head)}",
        rows="\n".join(rows),
    )


def _in_short(found: Sequence[Cell]) -> str:
    """What became of one estimator, scheduler and budget, with the reformulators named where they differ."""
    by_kind: dict[str, list[str]] = {}
    for cell in found:
        too_small = "smallest useful budget" in cell.why
        kind = cell.kind if cell.kind != WARNED else f"warned: {'too small' if too_small else 'not used'}"
        by_kind.setdefault(kind, []).append(cell.reformulator)
    if len(by_kind) == 1:
        return next(iter(by_kind))
    return "; ".join(f"{kind} ({', '.join(reformulators)})" for kind, reformulators in by_kind.items())


_TEXT = """# Which combinations work

Every estimator can be combined with every scheduler, budget and reformulator. This page shows the result of all
{combinations} combinations. `python scripts/combinations.py` writes it, and a test fails if it is out of date.

- **works**: documents are scored, and the top 10 becomes better by the scores.
- **pays nothing**: the budget allows no document, and none is paid for.
- **warned: too small**: the budget ends within the first round of the policy. The warning names the smallest useful
  budget.
- **warned: not used**: no score changes the ranking. The estimator knows the judgments, and
  `assembler.ordering=posterior` ranks by them.
- **refused**: the scores would be paid for and not used. The run ends with exit code 2 and names the combination that
  works.

`cascade` has a second reranker, which it needs: `+reranker@rerankers.strong=replay +scheduler.limits.strong=5`.
Without one it is refused.

The table was made with {queries} queries of the shipped collection and {depth} documents a query. A cell holds for all
reformulators ({reformulators}) unless it names them. A stand-in answers for
the language models. A first round depends on the number of candidates: with 100 documents a query, TourRank's takes 100
documents.

## What to choose instead of a refused combination

The estimators below learn from windows that they ask for. Only the scheduler `windows` sends these.

| estimator | preset | scheduler |
|---|---|---|
{works}

## All combinations

{head}
{rows}
"""


@cache
def _files(group: str) -> dict[str, Any]:
    """The files of a group by name; Hydra composes all of them at once."""
    files: dict[str, Any] = plain(composed([f"+{group}@files.{name}={name}" for name in names(group)]))["files"]
    return files


@cache
def _base(*further: str) -> dict[str, Any]:
    return compose([*further, "estimator=baseline", f"retrieval.original_query_depth={DEPTH}", "budget=unlimited"])


def _config(group: str, name: str) -> dict[str, Any]:
    if name == "cascade":
        return _base("scheduler=cascade", *CASCADE)
    return {**_base("scheduler=windows"), group: _files(group)[name]}  # windows suits every estimator


@cache
def _session(group: str, name: str) -> Session:
    return build_session(_config(group, name))


@cache
def _reformulator(name: str) -> Any:
    """The reformulator of that name, with a model that needs no server."""
    node = dict(_files("reformulator")[name])
    resources: dict[str, Any] = {"corpus": _session("estimator", "baseline").dataset.corpus}
    if node.pop("llm", None) is not None:
        node, resources = {**node, "_partial_": True}, {**resources, "llm": Halves()}
    return component({"reformulator": node}, "reformulator", resources)


class Halves(LLMClient):
    """Stands in for a language model: it answers with the two halves of what it is asked."""

    def __init__(self) -> None:
        super().__init__(model="halves", base_url="http://127.0.0.1:9", mode="live", cache_dir=None)

    def prepare(self) -> None:
        """Do nothing."""

    def expected_cost(self, *_: Any, **__: Any) -> CostObject:
        """Nothing."""
        return FREE

    def chat_json(self, messages: Sequence[Any], schema: Any, **_: Any) -> Any:
        """The halves, as the schema wants them."""
        words = messages[-1].content.split()
        halves = [" ".join(half) for half in (words[: len(words) // 2], words[len(words) // 2 :])]
        return SimpleNamespace(parsed=schema.model_validate(halves))


def main() -> None:
    """Replay every combination and write the page."""
    write_text(PROJECT_ROOT / PAGE, page(list(cells())))


if __name__ == "__main__":
    main()
