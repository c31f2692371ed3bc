"""Tables of a study, with one row for each cell, each policy or each query."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any
from zlib import crc32

import numpy as np

from experiments.evaluate.curves import FloatArray, area
from experiments.evaluate.record import UNITS, told
from experiments.evaluate.significance import (
    SIGNIFICANT,
    Bootstrap,
    cost_to_reach,
    holm,
    paired_tests,
    pareto_front,
    wins_losses_ties,
)
from experiments.report.study import Cell, Study, StudyCollection
from ragtune.core.units import DOCS

Key = tuple[str, str]

_TESTS = ("p_t", "p_randomization")


def cells_table(study: Study) -> Any:
    """One row for each (collection, policy, column), with intervals, differences from the baselines, and p-values."""
    import pandas as pd

    return pd.DataFrame([row for collection in study.collections for row in _rows(study, collection)])


def _rows(study: Study, collection: StudyCollection) -> list[dict[str, Any]]:
    keys = [(policy.name, column) for policy in study.policies for column in study.columns]
    values = np.stack([collection.cells[key].values for key in keys], axis=1)
    differences = values - np.stack([collection.cells[study.reference, column].values for _, column in keys], axis=1)
    columns: dict[str, FloatArray] = {"": values.mean(axis=0)}
    columns["_low"], columns["_high"] = _interval(study, values)
    columns["_diff"] = differences.mean(axis=0)
    columns["_diff_low"], columns["_diff_high"] = _interval(study, differences)
    columns |= {f"_{test}": p for test, p in _tests(study, keys, differences, study.reference).items()}
    beside = _beside(study, collection, keys, values[:, :, 0])
    against_full = _against_full(study, collection, keys, values[:, :, 0])
    rows = []
    for i, (name, column) in enumerate(keys):
        policy, cell = study.by_name[name], collection.cells[name, column]
        row: dict[str, Any] = {"collection": collection.name, "policy": name, "label": policy.label}
        row |= {"kind": policy.kind, "budget": column, "unit": study.unit.name, "queries": len(collection.queries)}
        row |= _costs(cell)
        for j, measure in enumerate(study.measures):
            row |= {f"{measure}{part}": figures[i, j] for part, figures in columns.items()}
        row |= {part: figures[i] for part, figures in beside.items()}
        row |= zip(("wins", "losses", "ties"), wins_losses_ties(differences[:, i, 0]), strict=True)
        rows.append(row | {f"full_{part}": found[i] for part, found in against_full.items()})
    usable = [row for row in rows if row["kind"] != "ceiling"]
    front = pareto_front([r[f"{study.unit.name}_mean"] for r in usable], [r[study.measures[0]] for r in usable])
    on_front = {(row["policy"], row["budget"]) for row, is_on in zip(usable, front, strict=True) if is_on}
    return [{**row, "on_front": (row["policy"], row["budget"]) in on_front} for row in rows]


def _beside(study: Study, collection: StudyCollection, keys: list[Key], values: FloatArray) -> dict[str, FloatArray]:
    """The headline of each cell less that of each further baseline at the same budget, with intervals and p-values."""
    found: dict[str, FloatArray] = {}
    for other in study.baselines[1:]:
        theirs = np.stack([collection.cells[other.name, column].values[:, 0] for _, column in keys], axis=1)
        differences = (values - theirs)[:, :, None]
        low, high = _interval(study, differences)
        columns = {"diff": differences.mean(axis=0), "diff_low": low, "diff_high": high}
        columns |= _tests(study, keys, differences, other.name)
        found |= {f"{study.measures[0]}_vs_{other.name}_{part}": figures[:, 0] for part, figures in columns.items()}
    return found


def _interval(study: Study, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    return Bootstrap(study.resamples, study.level, study.seed).interval(values)


def resampled_means(study: Study, collection: StudyCollection, values: FloatArray) -> FloatArray:
    """Means of values (q, t) by bootstrap resample; collections over the same queries draw the same ones."""
    q = len(values)
    random = np.random.default_rng([study.seed, crc32(collection.dataset.encode())])
    means: FloatArray = random.multinomial(q, np.full(q, 1.0 / q), size=study.resamples) @ values / q
    return means


def ends(study: Study, means: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The ends of the percentile interval of resampled means, along axis 0."""
    tail = (1.0 - study.level) / 2.0
    low, high = np.quantile(means, [tail, 1.0 - tail], axis=0)
    return low, high


def _costs(cell: Cell) -> dict[str, Any]:
    docs, means = cell.in_unit(DOCS), cell.charged.mean(axis=0).tolist()
    quantiles = np.quantile(docs, [0.1, 0.5, 0.9]).tolist()
    return {
        "docs_mean": means[0],
        **dict(zip(("docs_p10", "docs_median", "docs_p90"), quantiles, strict=True)),
        "calls_mean": means[1],
        "stop_reasons": json.dumps(dict(sorted(Counter(cell.stops).items()))),
        **{f"{UNITS[i]}_mean": means[i] for i in told(cell.charged) if i >= 2},
    }


def _tests(study: Study, keys: list[Key], differences: FloatArray, reference: str) -> dict[str, FloatArray]:
    """p-values by name, each of shape (cells, measures); NaN for the reference itself."""
    q, n, m = differences.shape
    plain = paired_tests(differences.reshape(q, n * m), permutations=study.permutations, seed=study.seed)
    found = {name: p.reshape(n, m) for name, p in zip(_TESTS, plain, strict=True)}
    found |= {f"{name}_holm": np.full((n, m), np.nan) for name in _TESTS}
    families: dict[str, list[int]] = {}  # one Holm correction spans the budgets of a policy, or the compared runs
    for i, key in enumerate(keys):
        if key[0] != reference:
            families.setdefault(key[0 if study.is_grid else 1], []).append(i)
    for members in families.values():
        for name in _TESTS:
            for j in range(m):
                found[f"{name}_holm"][members, j] = holm(found[name][members, j])
    for p in found.values():
        p[[name == reference for name, _ in keys]] = np.nan
    return found


def _against_full(
    study: Study, collection: StudyCollection, keys: list[Key], values: FloatArray
) -> dict[str, FloatArray]:
    """The headline of each cell less that of the baseline's dearest; all cells are one family of tests."""
    own = [key for key in keys if study.by_name[key[0]].kind == "baseline"]
    full = max(own, key=lambda key: float(collection.cells[key].in_unit(study.unit).mean()))
    differences = values - collection.cells[full].values[:, :1]
    low, high = _interval(study, differences)
    others = [i for i, key in enumerate(keys) if key != full]
    found = {"diff": differences.mean(axis=0), "diff_low": low, "diff_high": high}
    found |= {f"{name}_holm": np.full(len(keys), np.nan) for name in _TESTS}
    if others:
        tested = paired_tests(differences[:, others], permutations=study.permutations, seed=study.seed)
        for name, p in zip(_TESTS, tested, strict=True):
            found[f"{name}_holm"][others] = holm(p)
    return found


def policies_table(study: Study) -> Any:
    """One row for each (collection, policy): the area, and what 95% and 99% of the target take."""
    import pandas as pd

    rows = []
    for collection in study.collections:
        low = max(curve.allowed[0] for curve in collection.curves.values())
        high = max(float(cell.in_unit(study.unit).max()) for cell in collection.cells.values())
        for policy in study.policies:
            curve = collection.curves[policy.name]
            steps, quality = curve.steps, curve.mean[:, 0]
            row: dict[str, Any] = {"collection": collection.name, "policy": policy.name, "label": policy.label}
            row |= {"kind": policy.kind, "area": area(curve.allowed, quality, low, high, stepwise=steps)}
            for percent in (95, 99):
                wanted = percent / 100 * collection.target[0]
                spent, at_first = cost_to_reach(curve.spent, quality, wanted, stepwise=steps)
                name = f"{study.unit.name}_to_{percent}"
                row |= {name: np.nan if spent is None else spent, f"{name}_at_first": at_first}
            row |= {"target": float(collection.target[0]), f"target_{study.unit.name}": collection.target_spent}
            rows.append(row)
    return pd.DataFrame(rows)


def curves_table(study: Study) -> Any:
    """One row for each point of each policy's curve of the headline measure."""
    import pandas as pd

    parts = []
    for collection in study.collections:
        for policy, curve in collection.curves.items():
            part: dict[str, Any] = {"collection": collection.name, "policy": policy, "steps": curve.steps}
            part |= {"allowed": curve.allowed, "spent": curve.spent}
            part |= {name: getattr(curve, name)[:, 0] for name in ("mean", "low", "high")}
            parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True)


def per_query_table(study: Study) -> Any:
    """One row for each (collection, policy, column, query)."""
    import pandas as pd

    parts = []
    for collection in study.collections:
        for (policy, column), cell in collection.cells.items():
            docs, calls = cell.charged[:, :2].astype(np.int64).T
            part: dict[str, Any] = {"collection": collection.name, "policy": policy, "budget": column}
            part |= {"query_id": list(collection.queries)}
            part |= {measure: cell.values[:, j] for j, measure in enumerate(study.measures)}
            part |= {"docs": docs, "calls": calls, "stop_reason": cell.stops}
            part |= {UNITS[i]: cell.charged[:, i] for i in told(cell.charged) if i >= 2}
            parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True)


def verdict(row: Any, measure: str) -> str:
    """``▲`` or ``▼`` if both corrected tests place it above or below the reference, ``△`` or ``▽`` if only one does."""
    passed = sum(row[f"{measure}_{test}_holm"] < SIGNIFICANT for test in _TESTS)
    signs = ("", "△", "▲") if row[f"{measure}_diff"] > 0 else ("", "▽", "▼")
    return signs[passed]


def p_text(p: float) -> str:
    """A p-value as tables and sentences write it."""
    return "< .001" if p < 0.001 else f"{p:.3f}"
