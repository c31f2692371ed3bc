"""Means over families of test collections, each family counting once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.evaluate.curves import FloatArray
from experiments.report.study import Study, StudyCollection
from experiments.report.tables import ends, resampled_means

ALL = "all families"


def means_by_family(collections: Sequence[StudyCollection], values: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Means by family, of values by pair: over a test collection's pairs, then over a family's collections."""
    nested: dict[str, dict[str, list[FloatArray]]] = {}
    for collection in collections:
        if collection.name in values:
            group = collection.group or collection.name
            pairs = nested.setdefault(collection.family or group, {}).setdefault(group, [])
            pairs.append(values[collection.name])
    return {
        family: np.asarray(np.mean([np.mean(pairs, axis=0) for pairs in groups.values()], axis=0))
        for family, groups in nested.items()
    }


def families_table(study: Study) -> Any:
    """One row for each (family, policy, column): the mean headline, and its difference from each baseline's."""
    import pandas as pd

    keys = [(policy.name, column) for policy in study.policies for column in study.columns]
    values = {
        c.name: np.stack([c.cells[key].values[:, 0] for key in keys], axis=1) for c in study.collections
    }  # each of shape (queries, keys)
    figures = {"": _means(study, {name: own.mean(axis=0) for name, own in values.items()})}
    for baseline in study.baselines:
        own = [keys.index((baseline.name, column)) for _, column in keys]
        apart = {c.name: values[c.name] - values[c.name][:, own] for c in study.collections}
        drawn = _means(study, {c.name: resampled_means(study, c, apart[c.name]) for c in study.collections})
        suffix = _suffix(study, baseline.name)
        figures[f"{suffix}_diff"] = _means(study, {name: found.mean(axis=0) for name, found in apart.items()})
        for end, name in enumerate(("low", "high")):
            figures[f"{suffix}_diff_{name}"] = {family: ends(study, found)[end] for family, found in drawn.items()}
    rows = [
        {"family": family, "policy": policy, "label": study.by_name[policy].label, "budget": column}
        | {f"{study.measures[0]}{part}": float(found[family][i]) for part, found in figures.items()}
        for family in figures[""]
        for i, (policy, column) in enumerate(keys)
    ]
    return pd.DataFrame(rows)


def _means(study: Study, values: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    means = means_by_family(study.collections, values)
    return {ALL: np.mean(list(means.values()), axis=0), **means}


def _suffix(study: Study, baseline: str) -> str:
    return "" if baseline == study.reference else f"_vs_{baseline}"


def families_page(study: Study, table: Any) -> str:
    """The means as Markdown, of all families and of each; in brackets the difference from each baseline."""
    sizes: dict[str, dict[str, int]] = {}
    for collection in study.collections:
        groups = sizes.setdefault(collection.family, {})
        groups[collection.group] = groups.get(collection.group, 0) + 1
    baselines = " and from ".join(f"*{policy.label}*" for policy in study.baselines)
    parts = [
        "## By family\n",
        "Each family of test collections counts once: means over the pairs of a collection, over the collections of a "
        f"family, over the families. In brackets: differences from {baselines} at the same budget. Bold: its 95% "
        "interval is without 0.\n".replace("95%", f"{study.level:.0%}"),
    ]
    for family, rows in table.groupby("family", sort=False):
        groups = sizes.get(str(family), {})
        holds = ", ".join(f"{group} ({n} pair{'s' if n > 1 else ''})" for group, n in groups.items())
        parts.append(f"### {family}{': ' if holds else ''}{holds}\n")
        parts.append(f"| policy | {' | '.join(study.columns)} |\n|---|{'---:|' * len(study.columns)}")
        for policy in study.policies:
            cells = [_cell(study, row) for _, row in rows[rows["policy"] == policy.name].iterrows()]
            label = f"*{policy.label}*" if policy.kind == "ceiling" else policy.label
            parts.append(f"| {label} | {' | '.join(cells)} |")
        parts.append("")
    return "\n".join(parts)


def _cell(study: Study, row: Any) -> str:
    headline = study.measures[0]
    apart = []
    for baseline in study.baselines:
        if baseline.name != row["policy"]:
            name = f"{headline}{_suffix(study, baseline.name)}_diff"
            text = f"{row[name]:+.3f}"
            apart.append(f"**{text}**" if row[f"{name}_low"] > 0 or row[f"{name}_high"] < 0 else text)
    return f"{row[headline]:.3f} ({', '.join(apart)})" if apart else f"{row[headline]:.3f}"
