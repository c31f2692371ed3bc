"""What differs between two finished runs: choices, data, code, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.compare.run_folder import Run, reading, require_columns
from experiments.config.overrides import WHERE_NOT_WHAT
from experiments.evaluate.record import UNITS, told
from experiments.evaluate.significance import PairedDifferences, holm, paired_differences, wins_losses_ties
from experiments.publish.described import params


@dataclass(frozen=True)
class Row:
    """A figure of both runs: means over a run's judged queries, or where both are tested, over those that both have.

    Attributes:
        name: of the measure, or of what was spent.
        a, b: the two means.
        difference, low, high: b less a, and its interval; None where the runs have no query in common.
        p, p_holm: of the randomization test, the latter corrected for the number of measures; None of what was spent.
    """

    name: str
    a: float
    b: float
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_holm: float | None = None


@dataclass(frozen=True)
class Difference:
    """What differs between two runs.

    Attributes:
        choices: what was chosen otherwise, data and code: its name, and the words of both; empty where one has none.
        measures, costs: figures of both.
        queries: judged queries that both have, on which they are compared.
        wins, losses, ties: queries on which b is above, below and as good as a, by the headline.
    """

    choices: list[tuple[str, str, str]]
    measures: list[Row]
    costs: list[Row]
    queries: int
    wins: int
    losses: int
    ties: int


def difference(a: Run, b: Run) -> Difference:
    """Compare two runs on the judged queries that both have; runs of different collections have none.

    Raises:
        DatasetError: if a file of one is damaged.
    """
    names = [name for name in a.summary.measures if name in b.summary.measures]
    both = [run.queries.columns for run in (a, b)]
    always = told(np.zeros(len(UNITS)))
    spent = [f"charged_{u}" for i, u in enumerate(UNITS) if i in always or all(f"charged_{u}" in has for has in both)]
    tables = []
    for run in (a, b):
        require_columns(run.table, run.queries, [*names, *spent])
        with reading(run.table):
            tables.append(run.queries[[*names, *spent]].astype(float))
    of_a, of_b = tables
    same = a.summary.corpus_digest == b.summary.corpus_digest
    common = [query for query in of_a.index if query in set(of_b.index)] if same else []
    tested = None
    if common:
        of_a, of_b = of_a.loc[common], of_b.loc[common]
        bootstrap = {**a.config["bootstrap"], "seed": a.config["seed"]}
        tested = paired_differences((of_b - of_a).to_numpy(), **bootstrap)
    rows = [_row(name, i, of_a, of_b, tested) for i, name in enumerate([*names, *spent])]
    headline = (of_b - of_a)[names[0]].to_numpy() if common and names else np.empty(0)
    wins, losses, ties = wins_losses_ties(headline)
    return Difference(
        choices=_choices(a, b),
        measures=_corrected(rows[: len(names)]),
        costs=[_untested(row) for row in rows[len(names) :] if row.a or row.b],
        queries=len(common),
        wins=wins,
        losses=losses,
        ties=ties,
    )


def _row(name: str, i: int, a: Any, b: Any, tested: PairedDifferences | None) -> Row:
    means = (float(a[name].mean()), float(b[name].mean()))
    if tested is None:
        return Row(name, *means)
    found = (float(part[i]) for part in (tested.mean, tested.low, tested.high, tested.p))
    return Row(name, *means, *found)


def _corrected(rows: list[Row]) -> list[Row]:
    tested = [row.p for row in rows if row.p is not None]
    if not tested:
        return rows
    return [Row(**{**vars(row), "p_holm": float(p)}) for row, p in zip(rows, holm(tested), strict=True)]


def _untested(row: Row) -> Row:
    return Row(**{**vars(row), "p": None, "name": row.name.removeprefix("charged_")})


def _choices(a: Run, b: Run) -> list[tuple[str, str, str]]:
    ours, theirs = _told(a), _told(b)
    names = dict.fromkeys([*ours, *theirs])
    pairs = ((name, ours.get(name, ""), theirs.get(name, "")) for name in names)
    return [(name, x, y) for name, x, y in pairs if x != y]


def _told(run: Run) -> dict[str, str]:
    """What a run says of itself, in words: its choices first, then its options, data and code."""
    told: Mapping[str, Any] = params({k: v for k, v in run.config.items() if k not in WHERE_NOT_WHAT})
    summary = run.summary
    chosen = {name: str(value) for name, value in sorted(told.items(), key=lambda item: "." in item[0])}
    data = {f"file {name}": digest[:12] for name, digest in summary.inputs.items()}
    data |= {"collection": summary.dataset, "documents": f"{summary.documents} ({summary.corpus_digest[:12]})"}
    code = {"code": summary.tags["git_sha"], "ragtune": summary.tags.get("ragtune_version", "")}
    return chosen | data | code
