"""The standings of the board, with intervals and tests, as Markdown and as a page that needs no server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from jinja2 import Environment

from experiments.evaluate.significance import PERMUTATIONS, SIGNIFICANT, TIE, holm
from experiments.leaderboard.record import REFERENCE
from experiments.publish.files import write_text
from experiments.report.families import means_by_family
from experiments.report.latex import latex_table
from experiments.report.markdown import Table
from experiments.report.report import STYLE
from experiments.report.tables import ends, p_text, resampled_means
from ragtune.core.errors import ConfigError
from ragtune.core.plain import first_line
from ragtune.core.units import BY_SHORT

PAGE = Path(__file__).with_name("page.html")
RESAMPLES, LEVEL = 1000, 0.95
COLUMNS = ("rank", "policy", "area", "interval", "less fixed depth", "p", "CPU ms")
ON_COLUMNS = (  # which a paper does not print
    "CPU ms: the policy's own work for a request of 20 documents; of presets with RAGtune's loop. Record: version, "
    "digest of the code that replays and measures the policy (without comments) and of its settings, date."
)


def show(folder: Path) -> str:
    """Rank the records of a folder and return the board as Markdown; ``index.html``, ``leaderboard.tex`` have it too.

    Records of other collections, inputs or budgets than fixed depth's are left out. All bytes of the page depend on the
    records alone: the milliseconds, which differ from run to run, are in ``cpu.js``.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: there is no such folder")
    found = [file for file in sorted(folder.glob("*.json")) if not file.name.endswith(".cpu.json")]
    records = {file.stem: _read(file) for file in found}
    if REFERENCE not in records:
        raise ConfigError(f"{folder} has no record of {REFERENCE}: 'ragtune leaderboard run {REFERENCE}' makes it")
    reference = records[REFERENCE]
    left_out = {name: why for name, record in records.items() if (why := _unlike(record, reference))}
    kept = {record["label"]: record for name, record in records.items() if name not in left_out}
    files = {label: folder / f"{record['policy']}.cpu.json" for label, record in kept.items()}
    cpu = {label: _read(file)["cpu_ms"] for label, file in files.items()}
    tables = [_table(unit, kept, cpu) for unit, *_ in reference["protocol"]["tracks"]]
    said = [_said(reference), ON_COLUMNS, *(f"Left out: {name}: {why}." for name, why in left_out.items())]
    inputs = [
        [name, each["family"], str(len(each["units"]["docs"]["area"])), each["inputs"][:12]]
        for name, each in reference["collections"].items()
    ]
    tables.append(Table("Collections", ["collection, first stage, reranker", "family", "queries", "inputs"], inputs))
    page = Environment(autoescape=True, keep_trailing_newline=True).from_string(PAGE.read_text(encoding="utf-8"))
    kinds = sorted({record["kind"] for record in kept.values()})
    style = STYLE.read_text(encoding="utf-8")
    write_text(folder / "index.html", page.render(tables=tables, said=said, kinds=kinds, style=style))
    papers = [latex_table(table.title, _printed(table), said[0]) for table in tables[:-1]]
    write_text(folder / "leaderboard.tex", "\n".join(papers))
    write_text(folder / "cpu.js", f"const CPU = {json.dumps(cpu)};\n")
    return "\n\n".join(["# Leaderboard", *said, *(table.markdown for table in tables)])


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read as a record: {first_line(error)}") from None


def _printed(table: Table) -> Table:
    """The columns that a paper prints: without the time, which differs from run to run, and the record."""
    kept = [i for i, name in enumerate(table.columns) if name not in ("CPU ms", "kind", "record")]
    rows = [[row[i] for i in kept] for row in table.rows]
    return Table(table.title, [table.columns[i] for i in kept], rows)


def _unlike(record: Mapping[str, Any], reference: Mapping[str, Any]) -> str:
    if record["protocol"] != reference["protocol"]:
        return "other budgets"
    ours, theirs = ({name: each["inputs"] for name, each in r["collections"].items()} for r in (record, reference))
    differing = ", ".join(sorted({name for name, _ in ours.items() ^ theirs.items()}))
    return f"other inputs, or none, of {differing}" if differing else ""


def _table(unit: str, records: Mapping[str, Any], cpu: Mapping[str, float]) -> Table:
    """The policies that have figures in a unit, the best first."""
    own = [record for record in records.values() if all(unit in c["units"] for c in record["collections"].values())]
    at = [record["policy"] for record in own].index(REFERENCE)
    pairs: Any = [SimpleNamespace(name=n, dataset=c["group"], **c) for n, c in own[at]["collections"].items()]
    study: Any = SimpleNamespace(seed=own[at]["protocol"]["seed"], resamples=RESAMPLES, level=LEVEL)
    means, drawn, flipped = {}, {}, {}
    for pair in pairs:
        values = np.array([record["collections"][pair.name]["units"][unit]["area"] for record in own]).T / 10_000
        means[pair.name], apart = values.mean(axis=0), values - values[:, [at]]
        drawn[pair.name] = resampled_means(study, pair, np.hstack([values, apart]))
        # Pairs of a collection share the signs of its queries.
        random = np.random.default_rng(list(pair.group.encode()))
        flipped[pair.name] = (random.integers(0, 2, size=(PERMUTATIONS, len(values))) * 2 - 1) @ apart / len(values)
    families = means_by_family(pairs, means)
    mean, all_drawn, all_flipped = (
        np.mean([*means_by_family(pairs, each).values()], axis=0) for each in (means, drawn, flipped)
    )
    (low, apart_low), (high, apart_high) = (end.reshape(2, -1) for end in ends(study, all_drawn))
    apart = mean - mean[at]
    p = (1 + (np.abs(all_flipped) >= np.abs(apart) - TIE).sum(axis=0)) / (1 + PERMUTATIONS)
    others = np.arange(len(own)) != at
    p[others] = holm(p[others])
    rows = []
    for rank, i in enumerate(sorted(range(len(own)), key=lambda i: (-mean[i], own[i]["policy"])), 1):
        mark = ("▲" if apart[i] > 0 else "▼") if p[i] < SIGNIFICANT else ""
        difference = f"{apart[i]:+.3f} [{apart_low[i]:+.3f}, {apart_high[i]:+.3f}] {mark}".rstrip()
        row = [str(rank), own[i]["label"], f"{mean[i]:.3f}", f"[{low[i]:.3f}, {high[i]:.3f}]"]
        row += [difference, p_text(p[i])] if i != at else ["", ""]
        row += [f"{cpu[own[i]['label']]:.1f}", *(f"{each[i]:.3f}" for each in families.values())]
        rows.append([*row, own[i]["kind"], f"{own[i]['version']} {own[i]['code'][:8]} {own[i]['date'] or ''}"])
    return Table(f"Budgets in {BY_SHORT[unit].noun}", [*COLUMNS, *families, "kind", "record"], rows)


def _said(reference: Mapping[str, Any]) -> str:
    protocol, collections = reference["protocol"], reference["collections"]
    budgets = [f"{', '.join(map(str, amounts))} {BY_SHORT[unit].noun}" for unit, amounts, *_ in protocol["tracks"]]
    families = {each["family"] for each in collections.values()}
    return (
        f"Area: mean {protocol['measure']} between the smallest and the largest budget, over the logarithm of the "
        f"cost. Families count once ({len(families)}, with {len(collections)} pairs of first stage and reranker). "
        f"Budgets: {'; '.join(budgets)}. Intervals: {LEVEL:.0%}, {RESAMPLES} bootstrap resamples of the queries. "
        f"▲ above and ▼ below fixed depth: p < {SIGNIFICANT:.2f} by a randomization test, Holm-corrected over the "
        "policies."
    )
