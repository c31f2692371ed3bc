"""Tables of a study, with one row for each cell, each policy or each query."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
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
    largest_fall,
    paired_tests,
    pareto_front,
    wins_losses_ties,
)
from experiments.report.study import Cell, Collection, Study


def cells_table(study: Study) -> Any:
    """A table with one row for each (collection, policy, column).

    For each measure M the columns are the mean ``M``, its interval ``M_low`` and ``M_high``, the difference from the
    reference ``M_diff`` with its interval, and the p-values ``M_p_t`` and ``M_p_randomization``, also corrected by
    Holm's method (``_holm``). Wins, losses and ties are counted for the headline measure, and ``full_diff`` with its
    interval and corrected p-values is its difference from the dearest cell of the baseline.
    """
    import pandas as pd

    rows = [row for collection in study.collections for row in _collection_rows(study, collection)]
    return pd.DataFrame(rows)


def _collection_rows(study: Study, collection: Collection) -> list[dict[str, Any]]:
    keys = [(policy.name, column) for policy in study.policies for column in study.columns]
    values = np.stack([collection.cells[key].values for key in keys], axis=1)
    reference = np.stack([collection.cells[_reference(study, key)].values for key in keys], axis=1)
    low, high = interval(study, values)
    diff_low, diff_high = interval(study, values - reference)
    tests = _tests(study, keys, values - reference)
    against_full = _against_full(study, collection, keys, values[:, :, 0])
    rows = []
    for i, (name, column) in enumerate(keys):
        policy, cell = study.by_name[name], collection.cells[name, column]
        row: dict[str, Any] = {
            "collection": collection.name,
            "policy": name,
            "label": policy.label,
            "kind": policy.kind,
            "budget": column,
            "unit": study.unit.name,
            "queries": len(collection.queries),
            **_costs(cell),
        }
        for j, measure in enumerate(study.measures):
            row |= {measure: values[:, i, j].mean(), f"{measure}_low": low[i, j], f"{measure}_high": high[i, j]}
            row |= {
                f"{measure}_diff": (values - reference)[:, i, j].mean(),
                f"{measure}_diff_low": diff_low[i, j],
                f"{measure}_diff_high": diff_high[i, j],
            }
            row |= {f"{measure}_{test}": p[i, j] for test, p in tests.items()}
        wins, losses, ties = wins_losses_ties((values - reference)[:, i, 0])
        row |= {"wins": wins, "losses": losses, "ties": ties}
        row |= {f"full_{name}": found[i] for name, found in against_full.items()}
        rows.append(row)
    for row, on_front in zip(rows, _front(study, rows), strict=True):
        row["on_front"] = on_front
    return rows


def interval(study: Study, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bootstrap interval of means over axis 0, with the settings of the study."""
    return Bootstrap(study.resamples, study.level, study.seed).interval(values)


def resampled_means(study: Study, collection: Collection, values: FloatArray) -> FloatArray:
    """Means of values of shape (q, t) in each bootstrap resample of the queries, shape (resamples, t).

    Collections over the same queries draw the same resamples, so what is put together from several stays paired.
    """
    q = len(values)
    random = np.random.default_rng([study.seed, crc32(collection.dataset.encode())])
    means: FloatArray = random.multinomial(q, np.full(q, 1.0 / q), size=study.resamples) @ values / q
    return means


def ends(study: Study, means: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The ends of the percentile interval of resampled means, along axis 0."""
    tail = (1.0 - study.level) / 2.0
    low, high = np.quantile(means, [tail, 1.0 - tail], axis=0)
    return low, high


def _reference(study: Study, key: tuple[str, str]) -> tuple[str, str]:
    return (study.reference, key[1])


def _costs(cell: Cell) -> dict[str, Any]:
    quantiles = np.quantile(cell.docs, [0.1, 0.5, 0.9])
    return {
        "docs_mean": float(cell.docs.mean()),
        **{f"docs_{name}": float(value) for name, value in zip(("p10", "median", "p90"), quantiles, strict=True)},
        "calls_mean": float(cell.calls.mean()),
        "expanded_mean": float(cell.expanded.mean()),
        "ineligible_mean": float(cell.ineligible.mean()),
        "stop_reasons": json.dumps(dict(sorted(Counter(cell.stops).items()))),
        **_recorded(cell, mean=True),
    }


def _recorded(cell: Cell, *, mean: bool) -> dict[str, Any]:
    """What was charged besides documents and calls, as columns."""
    columns = {UNITS[i]: cell.recorded[:, i - 2] for i in told(cell.charged) if i >= 2}
    return {f"{name}_mean": float(values.mean()) for name, values in columns.items()} if mean else columns


def _tests(study: Study, keys: list[tuple[str, str]], differences: FloatArray) -> dict[str, FloatArray]:
    """p-values by name, each of shape (cells, measures); NaN for the reference itself."""
    q, n, m = differences.shape
    plain = paired_tests(differences.reshape(q, n * m), permutations=study.permutations, seed=study.seed)
    found = {"p_t": plain.t.reshape(n, m), "p_randomization": plain.randomization.reshape(n, m)}
    found |= {f"{name}_holm": np.full((n, m), np.nan) for name in tuple(found)}
    for members in _families(study, keys):
        for name in ("p_t", "p_randomization"):
            for j in range(m):
                found[f"{name}_holm"][members, j] = holm(found[name][members, j])
    itself = [i for i, (name, _) in enumerate(keys) if name == study.reference]
    for p in found.values():
        p[itself] = np.nan
    return found


def _against_full(
    study: Study, collection: Collection, keys: Sequence[tuple[str, str]], values: FloatArray
) -> dict[str, FloatArray]:
    """The headline of each cell less that of the baseline's dearest; all cells are one family of tests."""
    own = [key for key in keys if study.by_name[key[0]].kind == "incumbent"]
    full = max(own, key=lambda key: float(collection.cells[key].in_unit(study.unit).mean()))
    differences = values - collection.cells[full].values[:, :1]
    low, high = interval(study, differences)
    others = [i for i, key in enumerate(keys) if key != full]
    found = {"diff": differences.mean(axis=0), "diff_low": low, "diff_high": high}
    found |= {name: np.full(len(keys), np.nan) for name in ("p_t_holm", "p_randomization_holm")}
    if others:
        tested = paired_tests(differences[:, others], permutations=study.permutations, seed=study.seed)
        found["p_t_holm"][others] = holm(tested.t)
        found["p_randomization_holm"][others] = holm(tested.randomization)
    return found


def _families(study: Study, keys: list[tuple[str, str]]) -> list[list[int]]:
    """Positions of the cells that one Holm correction spans."""
    part = 0 if study.is_grid else 1
    families: dict[str, list[int]] = {}
    for i, key in enumerate(keys):
        if key[0] != study.reference:
            families.setdefault(key[part], []).append(i)
    return list(families.values())


def _front(study: Study, rows: list[dict[str, Any]]) -> list[bool]:
    """Whether no cell of a policy that could be used is cheaper and better; ceilings take no part."""
    real = [row["kind"] != "ceiling" for row in rows]
    usable = [row for row, is_real in zip(rows, real, strict=True) if is_real]
    front = iter(pareto_front([r[f"{study.unit.name}_mean"] for r in usable], [r[study.measures[0]] for r in usable]))
    return [bool(next(front)) if is_real else False for is_real in real]


def line_fronts(study: Study, collection: Collection) -> dict[str, list[bool]]:
    """By policy, without ceilings: the points of its line that no point of another line dominates in the headline."""
    usable = [policy.name for policy in study.policies if policy.kind != "ceiling"]
    lines = [collection.lines[name] for name in usable]
    front = pareto_front(
        np.concatenate([line.spent for line in lines]), np.concatenate([line.mean[:, 0] for line in lines])
    )
    parts = np.split(front, np.cumsum([len(line.spent) for line in lines])[:-1])
    return {name: part.tolist() for name, part in zip(usable, parts, strict=True)}


def policies_table(study: Study) -> Any:
    """A table with one row for each (collection, policy), all of the headline measure.

    It holds areas under the curve, what 95% and 99% of the target take, and the largest fall between two columns. All
    curves of a collection have their areas over the same range: up to the most that any query was charged.
    """
    import pandas as pd

    rows = []
    for collection in study.collections:
        curves = collection.curves
        low = max(curve.allowed[0] for curve in curves.values())
        high = max(float(cell.in_unit(study.unit).max()) for cell in collection.cells.values())
        for policy in study.policies:
            curve = curves[policy.name]
            steps, quality = curve.steps, curve.mean[:, 0]
            row: dict[str, Any] = {"collection": collection.name, "policy": policy.name, "label": policy.label}
            row |= {"kind": policy.kind, "area": area(curve.allowed, quality, low, high, stepwise=steps)}
            logs = np.log2(curve.allowed + 1), quality, np.log2(low + 1), np.log2(high + 1)
            row["area_log"] = area(*logs, stepwise=steps)
            for percent in (95, 99):
                wanted = percent / 100 * collection.target[0]
                spent, at_first = cost_to_reach(curve.spent, quality, wanted, stepwise=steps)
                name = f"{study.unit.name}_to_{percent}"
                row |= {name: np.nan if spent is None else spent, f"{name}_at_first": at_first}
            at_columns = collection.lines[policy.name].mean[:, 0]
            row |= {"largest_fall": largest_fall(at_columns), "best": float(at_columns.max())}
            rows.append(
                {**row, "target": float(collection.target[0]), f"target_{study.unit.name}": collection.target_spent}
            )
    return pd.DataFrame(rows)


def curves_table(study: Study) -> Any:
    """A table with one row for each point of each policy's curve of the headline, which :mod:`redraw` reads again."""
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
    """A table with one row for each (collection, policy, column, query)."""
    import pandas as pd

    parts = []
    for collection in study.collections:
        for (policy, column), cell in collection.cells.items():
            part: dict[str, Any] = {"collection": collection.name, "policy": policy, "budget": column}
            part |= {"query_id": list(collection.queries)}
            part |= {measure: cell.values[:, j] for j, measure in enumerate(study.measures)}
            part |= {"docs": cell.docs, "calls": cell.calls, "expanded": cell.expanded}
            part |= {"ineligible": cell.ineligible, "stop_reason": cell.stops, **_recorded(cell, mean=False)}
            parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True)


def verdict(row: Any, measure: str) -> str:
    """``▲`` or ``▼`` if both corrected tests place it above or below the reference, ``△`` or ``▽`` if only one does."""
    p = [row[f"{measure}_{test}_holm"] for test in ("p_t", "p_randomization")]
    passed = sum(value < SIGNIFICANT for value in p)
    if not passed:
        return ""
    above = row[f"{measure}_diff"] > 0
    return ("▲" if above else "▼") if passed == 2 else ("△" if above else "▽")


def p_text(p: float) -> str:
    """A p-value as tables and sentences write it."""
    return "< .001" if p < 0.001 else f"{p:.3f}"
