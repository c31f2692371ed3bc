"""Fits a model to the reranker's scores of past queries: what to add to the prior mean of a candidate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.evaluate.curves import FloatArray
from experiments.study.learned.candidates import Candidates
from ragtune.core.errors import ConfigError

Correction = Callable[[FloatArray], FloatArray]
"""From features of shape (n, f) to what is added to the prior means, shape (n,)."""

COPY = "copy"
"""Stands for a model where nothing is learned: the prior mean as it is."""

MODELS = ("ridge", "trees")
"""A linear model, and gradient-boosted trees."""

STRENGTH = 100.0
"""The ridge's penalty in scored documents: so many weigh as much as the prior that nobody fitted."""


@dataclass(frozen=True)
class Past:
    """Queries of one collection and reranker that were paid for.

    Attributes:
        group: what is left out together, and counts once.
        queries: pools by query id.
    """

    group: str
    queries: Mapping[str, Candidates]


@dataclass(frozen=True)
class Lessons:
    """What there is to learn from m scored documents.

    Attributes:
        features: shape (m, f).
        targets: shape (m,), by how much the reranker's word differs from the prior mean.
        weights: shape (m,), with a mean of 1; each group has the same sum, and in it each of its members.
    """

    features: FloatArray
    targets: FloatArray
    weights: FloatArray


def others(everything: Mapping[str, Past], name: str) -> list[Past]:
    """All but the group of a collection."""
    return [past for past in everything.values() if past.group != everything[name].group]


def lessons(pasts: Sequence[Past]) -> Lessons:
    """What the paid scores teach.

    Logits are standardised over all scores of a collection and reranker; where they lie on the whole is left to the
    prior's intercept.

    Raises:
        ConfigError: if there is no score, or collections have different numbers of sources.
    """
    parts = [(past.group, _features(past), _targets(past)) for past in pasts if past.queries]
    if not parts:
        raise ConfigError("there is nothing to learn from: two groups of collections with scores are needed")
    widths = {features.shape[1] for _, features, _ in parts}
    if len(widths) > 1:
        raise ConfigError("all collections need as many sources: what was learned of one says nothing of another")
    groups = [group for group, _, _ in parts]
    shares = [np.full(len(targets), 1.0 / len(targets) / groups.count(group)) for group, _, targets in parts]
    weights = np.concatenate(shares)
    return Lessons(
        np.concatenate([features for _, features, _ in parts]),
        np.concatenate([targets for _, _, targets in parts]),
        weights / weights.mean(),
    )


def fitted(model: str, taught: Lessons, seed: int) -> Correction:
    """Fit one of :data:`MODELS`; the same lessons and seed make the same model."""
    return _ridge(taught) if model == MODELS[0] else _trees(taught, seed)


def predicted(candidates: Candidates, correction: Correction) -> FloatArray:
    """The learned prior means of a query's documents, shape (n,)."""
    means: FloatArray = candidates.means + correction(candidates.features)
    return means


def _features(past: Past) -> FloatArray:
    return np.concatenate([one.features[one.bill] for one in past.queries.values()])


def _targets(past: Past) -> FloatArray:
    said = np.concatenate([one.logits for one in past.queries.values()])
    believed = np.concatenate([one.means[one.bill] for one in past.queries.values()])
    targets: FloatArray = (said - said.mean()) / (said.std() or 1.0) - (believed - believed.mean())
    return targets


def _ridge(taught: Lessons) -> Correction:
    from sklearn.linear_model import Ridge
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(taught.features, sample_weight=taught.weights)
    linear = Ridge(alpha=STRENGTH).fit(scaler.transform(taught.features), taught.targets, sample_weight=taught.weights)
    return lambda features: np.asarray(linear.predict(scaler.transform(features)))


def _trees(taught: Lessons, seed: int) -> Correction:
    from sklearn.ensemble import HistGradientBoostingRegressor

    trees = HistGradientBoostingRegressor(
        max_iter=100, learning_rate=0.05, max_leaf_nodes=8, early_stopping=False, random_state=seed
    ).fit(taught.features, taught.targets, sample_weight=taught.weights)
    return lambda features: np.asarray(trees.predict(features))
