"""The standings of the board: areas with intervals, tests against fixed depth, and means by family."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from experiments.evaluate.significance import PERMUTATIONS, TIE, holm
from experiments.leaderboard.tracks import REFERENCE
from experiments.report.families import ALL, families_table, means_by_family
from experiments.report.study import FINAL, Cell, Study, StudyCollection, StudyPolicy
from experiments.report.tables import ends, resampled_means
from ragtune.core.errors import ConfigError
from ragtune.core.units import BY_SHORT, Unit

RESAMPLES, LEVEL = 1000, 0.95


class Standing(NamedTuple):
    """A policy in one unit. The area is the mean quality between the smallest and the largest budget."""

    unit: Unit
    record: Mapping[str, Any]
    area: float
    low: float
    high: float
    difference: float  # from fixed depth, with its interval; p is Holm-corrected over the policies of the unit
    difference_low: float
    difference_high: float
    p: float  # not a number for fixed depth
    families: Mapping[str, float]
    cpu_ms: float  # not a number where it was not measured


class Board(NamedTuple):
    """Standings by unit, the best first, and the policies that were left out, with why."""

    standings: Mapping[str, Sequence[Standing]]
    left_out: Mapping[str, str]
    reference: Mapping[str, Any]


def read_board(folder: Path) -> Board:
    """Rank the records of a folder. Those of other collections, inputs or budgets than fixed depth's are left out."""
    files = [file for file in sorted(folder.glob("*.json")) if not file.name.endswith(".cpu.json")]
    records = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}
    if REFERENCE not in records:
        raise ConfigError(f"{folder} has no record of {REFERENCE}: ragtune leaderboard run {REFERENCE} makes it")
    reference = records[REFERENCE]
    left_out = {name: why for name, record in records.items() if (why := _unlike(record, reference))}
    kept = {name: record for name, record in records.items() if name not in left_out}
    cpu = {name: _cpu_ms(folder / f"{name}.cpu.json") for name in kept}
    units = [unit for unit, *_ in reference["protocol"]["tracks"]]
    return Board({unit: _standings(BY_SHORT[unit], kept, cpu) for unit in units}, left_out, reference)


def _unlike(record: Mapping[str, Any], reference: Mapping[str, Any]) -> str:
    if record["protocol"] != reference["protocol"]:
        return "other budgets"
    theirs = reference["collections"]
    same = {name for name, each in record["collections"].items() if each["inputs"] == theirs.get(name, {}).get("inputs")}
    missing = sorted(theirs.keys() - same)
    return f"other or missing inputs of {', '.join(missing)}" if missing else ""


def _cpu_ms(file: Path) -> float:
    return float(json.loads(file.read_text(encoding="utf-8"))["cpu_ms"]) if file.is_file() else float("nan")


def _standings(unit: Unit, records: Mapping[str, Any], cpu: Mapping[str, float]) -> list[Standing]:
    own = {
        name: record
        for name, record in records.items()
        if all(unit.short in each["units"] for each in record["collections"].values())
    }
    study = _study(unit, own)
    measure = study.measures[0]
    table = families_table(study).set_index(["family", "policy"])
    values = {c.name: np.stack([c.cells[name, FINAL].values[:, 0] for name in own], axis=1) for c in study.collections}
    drawn = {c.name: resampled_means(study, c, values[c.name]) for c in study.collections}
    low, high = ends(study, np.mean([*means_by_family(study.collections, drawn).values()], axis=0))
    at = list(own).index(REFERENCE)
    tested = _tests(study, {name: each - each[:, [at]] for name, each in values.items()})
    others = [i for i in range(len(own)) if i != at]
    p = np.full(len(own), np.nan)
    p[others] = holm(tested[others])
    families = [family for family in table.index.unique("family") if family != ALL]
    found = [
        Standing(
            unit,
            own[name],
            *(float(each) for each in (row[measure], low[i], high[i])),
            *(float(row[f"{measure}_diff{end}"]) for end in ("", "_low", "_high")),
            p=float(p[i]),
            families={family: float(table.loc[(family, name), measure]) for family in families},
            cpu_ms=cpu[name],
        )
        for i, name in enumerate(own)
        for row in [table.loc[(ALL, name)]]
    ]
    return sorted(found, key=lambda standing: (-standing.area, standing.record["policy"]))


def _tests(study: Study, differences: Mapping[str, Any]) -> Any:
    """p-values of the mean over families, by random signs of queries; collections over the same queries share them."""
    flipped = {}
    for collection in study.collections:
        random = np.random.default_rng([study.seed, crc32(collection.dataset.encode())])
        q = len(collection.queries)
        signs = random.integers(0, 2, size=(PERMUTATIONS, q)) * 2 - 1
        signs[0] = 1  # the observed one
        flipped[collection.name] = signs @ differences[collection.name] / q
    means = np.abs(np.mean([*means_by_family(study.collections, flipped).values()], axis=0))
    return (means >= means[0] - TIE).mean(axis=0)


def _study(unit: Unit, records: Mapping[str, Any]) -> Study:
    """The areas as a study whose one column they are."""
    first = records[REFERENCE]
    collections = []
    for name, about in first["collections"].items():
        cells = {
            (policy, FINAL): _cell(record["collections"][name]["units"][unit.short]["area"])
            for policy, record in records.items()
        }
        same = {"dataset": about["dataset"], "group": about["group"], "family": about["family"]}
        nothing: dict[str, Any] = {"query_texts": {}, "doc_texts": {}, "grades": {}, "curves": {}}
        queries = [str(i) for i in range(about["queries"])]
        collections.append(
            StudyCollection(name, queries, cells=cells, target=np.zeros(1), target_spent=0.0, **nothing, **same)
        )
    return Study(
        name="leaderboard",
        command="",
        git_sha="",
        collections=collections,
        policies=[StudyPolicy(name, record["label"], record["kind"]) for name, record in records.items()],
        reference=REFERENCE,
        columns=[FINAL],
        measures=[first["protocol"]["measure"]],
        target_label="",
        traced_column=FINAL,
        resamples=RESAMPLES,
        permutations=PERMUTATIONS,
        level=LEVEL,
        seed=first["protocol"]["seed"],
        unit=unit,
        is_grid=False,
    )


def _cell(areas: Sequence[int]) -> Cell:
    nothing = np.zeros((len(areas), 0))
    none = np.zeros(len(areas), dtype=np.int64)
    return Cell(np.array(areas, dtype=float)[:, None] / 10_000, nothing, none, none, [])
