"""Means over families of test collections, each family counting once, and choices by leaving one family out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.evaluate.curves import FloatArray
from experiments.publish.described import markdown_table
from experiments.report.study import PolicyChoice, Study, StudyCollection, column_of
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
        body = []
        for policy in study.policies:
            label = f"*{policy.label}*" if policy.kind == "ceiling" else policy.label
            body.append([label, *(_cell(study, row) for _, row in rows[rows["policy"] == policy.name].iterrows())])
        parts += [markdown_table(["policy", *study.columns], body), ""]
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


def choice_page(study: Study, choice: PolicyChoice) -> str:
    """What each family gets with the policy of kind ``ours`` that the other families choose, as Markdown.

    They choose by the mean gain over the reference; each family counts once.
    """
    names = [choice.default, *(p.name for p in study.policies if p.kind == "ours" and p.name != choice.default)]
    labels, reference = [study.by_name[name].label for name in names], study.by_name[study.reference].label
    default, budgets = labels[0], ", ".join(map(column_of, choice.budgets))
    apart = {c.name: _gains(study, choice, c, names) for c in study.collections}
    gains = means_by_family(study.collections, {name: own.mean(axis=0) for name, own in apart.items()})
    drawn = {c.name: resampled_means(study, c, apart[c.name]) for c in study.collections}
    resampled = means_by_family(study.collections, drawn)
    final = _chosen([*gains.values()])
    chosen = {family: _chosen([gains[other] for other in gains if other != family]) for family in gains}
    differences = {family: resampled[family][:, one] - resampled[family][:, 0] for family, one in chosen.items()}
    rows, brought = [], []
    for family, one in chosen.items():
        brought.append(gains[family][one] - gains[family][0])
        own = [f"{gains[family][i]:+.4f}" for i in (one, 0)]
        rows.append([family, labels[one], *own, _interval(study, brought[-1], differences[family])])
    mean = np.mean([*differences.values()], axis=0)
    title = f"Take {labels[final]}." if final and ends(study, mean)[0] > 0 else f"Keep {default}."
    table = []
    for i, label in enumerate(labels):
        brings = [found[i] for found in gains.values()]
        table.append([label, *(f"{gain:+.4f}" for gain in (*brings, np.mean(brings)))])
    heads = ["left out", "the others choose", "gain", f"gain of {default}", "difference"]
    return f"""# {study.name}: leaving one family out

**{title}** A family gets {_interval(study, float(np.mean(brought)), mean)} {study.measures[0]} more than with {default}
if the others choose for it. All families together choose {labels[final]}; so do {[*chosen.values()].count(final)} of
the {len(chosen)} choices that leave one out.

Each family of collections is left out in turn. The others choose the policy with the largest mean gain over
{reference} at equal budgets ({budgets} {study.noun}); of equals {default}. Another policy than {default} is taken only
if the left-out families gain by it, with an interval above zero.

- made by `{study.command}`
- code: `{study.git_sha}`
- intervals: {study.level:.0%}, {study.resamples} bootstrap resamples of the queries, the choice held fixed;
  collections over the same queries share them; seed {study.seed}

## What each family would have got

{markdown_table(heads, rows, "llrrr")}

## Gains over {reference}, by which policies are chosen

{markdown_table(["policy", *gains, "mean"], table)}
"""


def _gains(study: Study, choice: PolicyChoice, collection: StudyCollection, names: Sequence[str]) -> FloatArray:
    """Gains query by query, shape (q, policies)."""
    cells = {
        name: [collection.cells[name, column_of(budget)].values[:, 0] for budget in choice.budgets]
        for name in (*names, study.reference)
    }
    means = {name: np.mean(values, axis=0) for name, values in cells.items()}
    return np.column_stack([means[name] - means[study.reference] for name in names])


def _chosen(gains: Sequence[FloatArray]) -> int:
    """The policy with the largest mean gain over families; of gains equal up to rounding the first."""
    return int(np.argmax(np.mean(gains, axis=0).round(9)))


def _interval(study: Study, difference: float, resampled: FloatArray) -> str:
    low, high = ends(study, resampled)
    return f"{difference:+.4f} [{low:+.4f}, {high:+.4f}]"
