"""What is promised of speed, beside what a run of the benchmarks measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from operator import getitem
from typing import Any, NamedTuple

Figures = Mapping[str, Any]


class Target(NamedTuple):
    """A promise: what, at least or at most how much, and where a benchmark's figures say it (the worst, of several)."""

    what: str
    bound: str
    value: float
    benchmark: str
    measured: Callable[[Any], float]


def _at(*names: str) -> Callable[[Any], float]:
    return lambda found: float(reduce(getitem, names, found))


def _rate(policy: str) -> Callable[[Any], float]:
    return lambda found: 1000.0 / float(found["policies"][policy])


def _worst(name: str) -> Callable[[Any], float]:
    return lambda found: float(min(found[name].values()))


def _large_pool(name: str) -> Callable[[Any], float]:
    return lambda found: float(next(row[name] for row in found["batches"] if row["pool"] == 10_000))


def _most_queries(name: str) -> Callable[[Any], float]:
    return lambda found: float(max(row[name] for row in found["growth"] if row["queries"] == 100_000))


def _seconds_grow(found: Any) -> float:
    """How many times as long a query takes among 100,000 as among 10,000, of which more is held in memory, at worst."""
    seconds = {(row["policy"], row["queries"]): row["cpu_s"] / row["queries"] for row in found["growth"]}
    return float(max(s / seconds[policy, 10_000] for (policy, queries), s in seconds.items() if queries == 100_000))


_RATE = "queries a CPU second, without baselines"
_GRIDS = ("20 depths, each query 1 times", "20 depths, each query 10 times")

TARGETS = (
    *(Target(f"{grid}, times PyTerrier", ">=", 10, "depths", _at(grid, "ratio")) for grid in _GRIDS),
    *(Target(f"{grid}, difference in nDCG", "<=", 1e-9, "depths", _at(grid, "largest difference")) for grid in _GRIDS),
    Target("20 depths as whole commands, times a PyTerrier script", ">=", 2, "startup", _at("script / sweep")),
    Target("GAR with a graph, times pyterrier-adaptive", ">=", 2, "estimators", _at("gar", "ratio")),
    Target("greedy 10 x 10 with its files, queries a CPU second", ">=", 1000, "queries", _at(_RATE, "greedy 10 x 10")),
    Target("fixed depth, the same", ">=", 1200, "queries", _at(_RATE, "fixed depth")),
    Target("score oracle, the same", ">=", 1000, "queries", _at(_RATE, "score oracle 10 x 10")),
    Target("100,000 queries x 100, peak MB", "<=", 2000, "queries", _most_queries("peak_mb")),
    Target("the same, of which no file holds", "<=", 2000, "queries", _most_queries("held_mb")),
    Target("CPU s a query, of 100,000 over 10,000", "<=", 1.25, "queries", _seconds_grow),
    Target("uncertainty, 20 documents by 2, in process", ">=", 200, "estimators", _rate("uncertainty 10 x 2")),
    Target("uncertainty, 100 documents by 10, in process", ">=", 150, "estimators", _rate("uncertainty 10 x 10")),
    Target("uncertainty, 10 of a pool of 10,000, ms", "<=", 5, "estimators", _large_pool("median_ms")),
    Target("the same, last batches over first ones", "<=", 1.1, "estimators", _large_pool("growth")),
    Target("run.py on demo without MLflow, CPU s", "<=", 2.5, "startup", _at("run.py, without MLflow")),
    Target("run.py on demo with MLflow, CPU s", "<=", 4.5, "startup", _at("run.py, with MLflow")),
    Target("cross-encoder, ONNX Runtime times PyTorch", ">=", 1.8, "models", _worst("onnx_against_torch")),
    Target("the same, difference of scores", "<=", 1e-4, "models", _at("largest_difference")),
    Target("lockstep by batches of 5, times one query at a time", ">=", 1, "models", _worst("lockstep_against_alone")),
    Target(
        "the same by the clock, on a GPU", ">=", 3, "models", _at("lockstep_by_the_clock", "lockstep_against_alone")
    ),
)
"""What needs a cluster or another commit is measured by hand."""


def table(figures: Figures) -> Iterator[str]:
    """Lines of a Markdown table: each target of a benchmark that ran, what was measured, and whether it is reached."""
    yield from ("| what | by | target | measured | |", "|---|---|---:|---:|---|")
    for target in TARGETS:
        if found := figures.get(f"bench_{target.benchmark}"):
            sign = {">=": "at least", "<=": "at most"}[target.bound]
            bound = f"{sign} {target.value:,g}"
            yield f"| {target.what} | bench_{target.benchmark}.py | {bound} | {_outcome(target, found)} |"


def _outcome(target: Target, found: Any) -> str:
    try:
        value = target.measured(found)
    except (KeyError, ValueError):  # a benchmark leaves out what needs a collection that is absent
        return "| not measured"
    is_reached = value >= target.value if target.bound == ">=" else value <= target.value
    return f"{_short(value)} | {'' if is_reached else 'missed'}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
