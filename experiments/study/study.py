"""The data that tables, figures and the report are made from, for a grid and for compared runs alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.evaluate.curves import FloatArray

KINDS = ("incumbent", "peer", "ours", "ceiling")
"""Fixed depth; published policies; RAGtune's own; policies that know the answer, which win nothing."""


@dataclass(frozen=True)
class Policy:
    """A policy: its name in files, its label in tables and figures, and its kind, one of :data:`KINDS`."""

    name: str
    label: str
    kind: str


@dataclass(frozen=True)
class Cell:
    """Results of one policy under one budget for the q judged queries of a collection.

    Attributes:
        values: shape (q, m), the measures.
        docs, calls, expanded: shape (q,), charged documents and calls, and documents added to the pool.
        ineligible: shape (q,), neighbours that an expander found and the reranker cannot score.
        stops: why each query stopped.
        decisions: by query id, what was reranked when and why (see ``decisions.py``); only where asked for.
    """

    values: FloatArray
    docs: NDArray[np.int64]
    calls: NDArray[np.int64]
    expanded: NDArray[np.int64]
    ineligible: NDArray[np.int64]
    stops: Sequence[str]
    decisions: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """Quality against cost of one policy.

    Attributes:
        allowed: shape (s,), documents allowed at each point.
        docs: shape (s,), mean documents charged there.
        mean, low, high: shape (s, m), with the bootstrap interval.
    """

    allowed: FloatArray
    docs: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True)
class Collection:
    """Everything measured on one collection.

    Attributes:
        name: name of the collection with its first stage and reranker.
        queries: ids of the judged queries.
        query_texts, doc_texts: texts that the report shows; empty where it must not show any.
        grades: judgments by query and document, of the documents in decisions; empty where they are not at hand.
        cells: cells by policy name and column.
        lines: lines by policy name.
        target: mean quality, shape (m,), that "95% and 99% of full quality" refer to.
        target_docs: mean documents that the target costs.
    """

    name: str
    queries: Sequence[str]
    query_texts: Mapping[str, str]
    doc_texts: Mapping[str, str]
    grades: Mapping[str, Mapping[str, int]]
    cells: Mapping[tuple[str, str], Cell]
    lines: Mapping[str, Line]
    target: FloatArray
    target_docs: float


@dataclass(frozen=True)
class Study:
    """Results of policies on collections.

    Attributes:
        name: name of the study.
        command: the command that makes it again.
        git_sha: commit of the code.
        collections: at least one collection.
        policies: all policies, with the reference.
        reference: name of the policy that the others are tested against.
        columns: budgets as text, or the one column ``final`` where runs are compared.
        measures: names; the first is the headline.
        family: ``columns`` where Holm's correction spans a policy's columns, ``policies`` where it spans all
            policies of a column.
        target_label: what ``Collection.target`` is.
        traced_column: the column whose decisions can be looked at.
        resamples, permutations, level, seed: settings of the intervals and tests.
        notes: where the compared runs come from, one line each, Markdown.
    """

    name: str
    command: str
    git_sha: str
    collections: Sequence[Collection]
    policies: Sequence[Policy]
    reference: str
    columns: Sequence[str]
    measures: Sequence[str]
    family: str
    target_label: str
    traced_column: str
    resamples: int
    permutations: int
    level: float
    seed: int
    notes: Sequence[str] = ()

    @cached_property
    def by_name(self) -> Mapping[str, Policy]:
        """Policies by name."""
        return {policy.name: policy for policy in self.policies}

    @property
    def is_grid(self) -> bool:
        """Whether the columns are budgets; otherwise the study compares runs, in a single column."""
        return self.family == "columns"
