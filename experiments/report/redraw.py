"""python -m experiments.report.redraw FOLDER...: a study's Markdown and figures again, from its CSV files alone.

Nothing is replayed, so a committed study follows a change of presentation without its data. What the CSV files do not
hold (single queries, the report) needs the study's own command, which keeps its cells and is as quick where they are.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.evaluate.record import UNITS
from experiments.publish.files import write_text
from experiments.report.markdown import markdown
from experiments.report.overview import measures_of, overview_of, write_overview
from experiments.report.recommendation import recommendation
from experiments.report.study import Collection, Line, Policy, Study, unit_of
from experiments.report.write import draw_collections
from ragtune.core.errors import ConfigError, RagtuneError

HEAD = {
    "name": r"^# (.*)\n",
    "command": r"- made by `(.*)`",
    "git_sha": r"- code: `(.*)`",
    "level": r"- intervals: (\d+)%",
    "resamples": r"- intervals: .*, (\d+) bootstrap",
    "seed": r"; seed (\d+)\n",
    "permutations": r"\((\d+) random sign vectors\)",
    "target_label": r"- full quality: (.*)\n",
}
"""Where the head of the tables says how the study was made."""

NOTE = r"^- (warning: .*)$"
"""What a collection or its recorded inputs lack, in the head of the tables."""


def redraw(folder: Path) -> None:
    """Write the Markdown and the figures of a study of a grid again.

    Args:
        folder: holds ``frontier.md``, ``frontier.csv`` and ``policies.csv``; ``curves.csv`` where the study has one.

    Raises:
        ConfigError: if one is missing, or the head of the tables does not say how they were made.
    """
    import pandas as pd

    for name in ("frontier.md", "frontier.csv", "policies.csv", "curves.csv"):
        if not (folder / name).is_file():
            raise ConfigError(f"{str(folder)!r} holds no study of a grid: {name} is missing")
    cells = pd.read_csv(folder / "frontier.csv", dtype={"budget": str})
    policies = pd.read_csv(folder / "policies.csv")
    cells = cells.assign(ineligible_mean=cells.get("ineligible_mean", 0.0))
    curves = pd.read_csv(folder / "curves.csv")
    text = (folder / "frontier.md").read_text(encoding="utf-8")
    study = _study(cells, policies, curves, _head(folder, text))
    study = replace(study, notes=re.findall(NOTE, text, re.MULTILINE))
    write_text(folder / "frontier.md", markdown(study, cells, policies, recommendation(cells, study.measures[0])))
    draw_collections(study, folder)
    if results := overview_of(folder.resolve()):
        write_overview(results)


def _head(folder: Path, text: str) -> dict[str, Any]:
    found = {name: re.search(pattern, text) for name, pattern in HEAD.items()}
    for name, match in found.items():
        if match is None:
            raise ConfigError(f"the head of {str(folder / 'frontier.md')!r} does not say {name}")
    said: dict[str, Any] = {name: match[1] for name, match in found.items() if match}
    counts = {name: int(said[name]) for name in ("resamples", "seed", "permutations")}
    return {**said, **counts, "level": int(said["level"]) / 100}


def _study(cells: Any, policies: Any, curves: Any, head: dict[str, Any]) -> Study:
    named = cells[["policy", "label", "kind"]].drop_duplicates()
    measures, others = measures_of(cells), (policies, curves)
    reference = str(named.loc[named["kind"] == "incumbent", "policy"].iloc[0])
    return Study(
        collections=[
            _collection(str(name), reference, measures, mine, *(table[table["collection"] == name] for table in others))
            for name, mine in cells.groupby("collection", sort=False)
        ],
        policies=[Policy(*map(str, row)) for row in named.itertuples(index=False)],
        reference=reference,
        columns=list(cells["budget"].unique()),
        measures=measures,
        traced_column=str(cells["budget"].iloc[0]),
        unit=unit_of(cells),
        **head,
    )


def _collection(name: str, reference: str, measures: list[str], cells: Any, policies: Any, curves: Any) -> Collection:
    whole = _curves(curves)
    return Collection(
        name=name,
        queries=[""] * int(cells["queries"].iloc[0]),
        query_texts={},
        doc_texts={},
        grades={},
        cells={},
        lines={str(policy): _line(mine, measures) for policy, mine in cells.groupby("policy", sort=False)},
        target=np.array([policies["target"].iloc[0]]),
        target_spent=float(policies[f"target_{unit_of(cells).name}"].iloc[0]),
        whole_curves=whole,
        start=whole[reference].mean[0],
    )


def _curves(mine: Any) -> dict[str, Line]:
    """The curves of the headline, of which nothing but the unit of the budgets is drawn."""
    columns = {
        str(policy): {name: of_one[name].to_numpy() for name in of_one}
        for policy, of_one in mine.groupby("policy", sort=False)
    }
    return {
        policy: Line(
            allowed=column["allowed"],
            spent=column["spent"],
            **{name: column[name][:, None] for name in ("mean", "low", "high")},
            costs=np.zeros((len(column["spent"]), len(UNITS))),
            steps=bool(column["steps"][0]),
        )
        for policy, column in columns.items()
    }


def _line(mine: Any, measures: list[str]) -> Line:
    mean, low, high = (mine[[m + part for m in measures]].to_numpy(dtype=float) for part in ("", "_low", "_high"))
    costs = np.zeros((len(mine), len(UNITS)))
    for i, name in enumerate(UNITS):
        costs[:, i] = mine.get(f"{name}_mean", 0.0)
    spent = costs[:, UNITS.index(unit_of(mine).name)]
    return Line(mine["budget"].to_numpy(dtype=float), spent, mean, low, high, costs)


if __name__ == "__main__":
    try:
        for given in sys.argv[1:]:
            redraw(Path(given))
    except RagtuneError as error:
        sys.exit(f"error: {error}")
