"""Learns priors for the collections of a study, and replays the policies that have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from experiments.config.compose import results_key
from experiments.config.progress import Progress
from experiments.evaluate.curves import FloatArray
from experiments.publish.files import write_text
from experiments.replay.build import load_dataset
from experiments.replay.sessions import session_for
from experiments.study.cells import jobs_of, run_jobs
from experiments.study.frontier import Cells
from experiments.study.grid import CollectionEntry, Grid, PolicyEntry, TraceChoice
from experiments.study.learned.candidates import candidates_of, first
from experiments.study.learned.estimator import LearnedPriorEstimator
from experiments.study.learned.fit import COPY, MODELS, Lessons, Past, fitted, lessons, others, predicted
from experiments.study.study import file_stem
from ragtune.core.errors import ConfigError

BUDGETS = (5, 10, 20)
"""Documents after which policies are compared."""

MEAN, COLUMN = USES = ("mean", "column")
"""A prediction takes the place of the prior mean, or is one more signal, whose weight the posterior learns; it is no
witness, since it is made of what the other sources say."""

HISTORY = (10, 30, 100)
"""Queries of the same collection that are learned from."""

LEAST = 10
"""Queries that have to be left to evaluate a history on."""

_TARGET = f"{LearnedPriorEstimator.__module__}.{LearnedPriorEstimator.__name__}"


@dataclass(frozen=True)
class Variant:
    """A policy with a learned prior.

    Attributes:
        base: the policy whose prior it replaces.
        model: one of :data:`MODELS`, or :data:`COPY`.
        use: one of :data:`USES`.
        seen: queries of the same collection that were learned from; None for all queries of the other groups.
    """

    base: PolicyEntry
    model: str
    use: str
    seen: int | None = None

    @property
    def entry(self) -> PolicyEntry:
        """The policy, which finds its predictions in the collection's folder ``$learned``."""
        file = "$learned/" + _file_name(self.base, self.model, self.seen)
        changes = {
            MEAN: [f"estimator._target_={_TARGET}", f"+estimator.means={file}"],
            COLUMN: ["+signal@signal.learned=table", f"signal.learned.path={file}", "signal.learned.witness=false"],
        }
        name = "-".join([self.base.name, self.model, self.use, *([] if self.seen is None else [str(self.seen)])])
        return PolicyEntry(name, "ours", name, [*self.base.choices, *changes[self.use]])


def variants_of(bases: Sequence[PolicyEntry], history: Sequence[int | None]) -> list[Variant]:
    """All models and uses for some policies, each with one history after the other."""
    return [Variant(*what) for what in product(bases, MODELS, USES, history)]


def copy_of(base: PolicyEntry) -> Variant:
    """The policy with its own prior mean as one more signal: what a column brings that nobody has learned."""
    return Variant(base, COPY, COLUMN)


def histories(queries: int) -> list[int]:
    """The histories that a collection of so many queries is long enough for."""
    return [seen for seen in HISTORY if seen + LEAST <= queries]


def bases_of(grid: Grid) -> list[PolicyEntry]:
    """The policies whose priors are replaced, which are a grid's own ones."""
    return [replace(entry, overrides=tuple(entry.choices)) for entry in grid.policies if entry.kind == "ours"]


def prepared(grid: Grid, bases: Sequence[str], folder: Path) -> Grid:
    """A study's grid with nothing but what is needed: its collections, incumbent, and the policies that are named.

    Raises:
        ConfigError: if a policy is unknown or none of the study's own.
    """
    ours = [entry.name for entry in grid.policies if entry.kind == "ours"]
    for name in bases:
        if name not in ours:
            raise ConfigError(f"policy {name!r}: allowed are those of kind ours, {', '.join(ours)}")
    kept = replace(
        grid.only([], bases), budgets=BUDGETS, claims=(), choice=None, report=False, traces=TraceChoice(BUDGETS[0])
    )
    collections = [
        replace(entry, variables={**entry.variables, "learned": str(folder / file_stem(entry.name))})
        for entry in kept.collections
    ]
    return replace(kept, collections=collections)


def replay(grid: Grid, cells: Path, progress: Progress) -> Cells:
    """Learn, write the predictions, and replay what lacks its cell.

    Args:
        grid: a :func:`prepared` one.
        cells: folder of the finished cells.
        progress: called with the number of cells done.

    Returns:
        The cells of the bases and, under the names of ``Variant.entry``, of all variants.
    """
    bases = bases_of(grid)
    for base in bases:
        _write_predictions(grid, base)
    long_enough = {entry.name: {None, *histories(_judged(grid, entry))} for entry in grid.collections}
    history = [seen for seen in (None, *HISTORY) if any(seen in mine for mine in long_enough.values())]
    variants = [*variants_of(bases, history), *map(copy_of, bases)]
    seen_by = {variant.entry.name: variant.seen for variant in variants}
    everything = replace(grid, policies=[*grid.policies, *(variant.entry for variant in variants)])
    jobs = [job for job in jobs_of(everything, cells) if seen_by.get(job.policy) in long_enough[job.collection]]
    return run_jobs(jobs, grid.jobs, progress)


def _judged(grid: Grid, entry: CollectionEntry) -> int:
    return len(load_dataset(grid.configuration(entry, grid.incumbent)).judged)


def _write_predictions(grid: Grid, base: PolicyEntry) -> None:
    everything, order = {}, {}
    for entry in grid.collections:
        session = session_for(results_key(grid.configuration(entry, base)))
        everything[entry.name] = Past(entry.group or entry.name, candidates_of(session))
        order[entry.name] = session.dataset.judged
    for entry in grid.collections:
        mine, queries = everything[entry.name], order[entry.name]
        folder = Path(entry.variables["learned"])
        same = {query_id: (one.doc_ids, one.means) for query_id, one in mine.queries.items()}
        _write_run(folder / _file_name(base, COPY, None), same)
        taught: dict[int | None, Lessons] = {None: lessons(others(everything, entry.name))}
        for count in histories(len(queries)):
            taught[count] = lessons([Past(mine.group, first(mine.queries, queries[:count]))])
        for (seen, taught_by), model in product(taught.items(), MODELS):
            learned = fitted(model, taught_by, grid.seed)
            means = {query_id: (one.doc_ids, predicted(one, learned)) for query_id, one in mine.queries.items()}
            _write_run(folder / _file_name(base, model, seen), means)


def _file_name(base: PolicyEntry, model: str, seen: int | None) -> str:
    return f"{base.name}-{model}-{'others' if seen is None else seen}.run"


def _write_run(file: Path, means: Mapping[str, tuple[Sequence[str], FloatArray]]) -> None:
    """Six digits, so that what rounding differs in on another machine makes no difference."""
    lines = []
    for query_id, (doc_ids, values) in means.items():
        scored = sorted(zip(values.round(6).tolist(), doc_ids, strict=True), reverse=True)
        lines += [f"{query_id} Q0 {doc_id} {i} {value:.6f} learned\n" for i, (value, doc_id) in enumerate(scored, 1)]
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, "".join(lines))
