"""Turns a reranker's scores into probabilities of relevance, so that one threshold means the same for every model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, NonNegativeFloat, NonNegativeInt, ValidationError, model_validator

from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.errors import ConfigError, InputError

Method = Literal["platt", "isotonic"]
METHODS: tuple[Method, ...] = ("platt", "isotonic")
"""Ways to fit a curve, the simpler one first."""

_BINS, _FOLDS = 10, 5
_SMALLEST = 1e-9  # distance from 0 and 1 at which a score is cut before its logit is taken
_FOLD_SEED = 0


class Errors(BaseModel):
    """Errors of probabilities of relevance: 0 is best.

    Attributes:
        ece: expected calibration error, in ten bins of as many pairs each: the mean distance between the probability
            and the share of relevant documents (Naeini et al., AAAI 2015).
        brier: mean squared distance from the judgment, 0 or 1 (Brier 1950).
    """

    model_config = ConfigDict(frozen=True)

    ece: NonNegativeFloat
    brier: NonNegativeFloat


class Calibration(BaseModel):
    """A curve from scores to P(relevant), of one model; it never falls, so no order changes.

    Attributes:
        model: the model whose scores it is for.
        method: ``platt``, a logistic curve of the score's logit (Platt 1999), or ``isotonic`` (Zadrozny, Elkan 2002).
        slope, intercept: of ``platt``.
        scores, probabilities: of ``isotonic``, between which the curve is a straight line.
        dataset, queries, pairs, relevant: the judged pairs that it was fitted to.
        before, after: errors on held-out queries, of the score as a probability and of the curve.

    Examples:
        >>> from ragtune.facade.calibration import Calibration
        >>> curve = Calibration(model="ce", method="platt", slope=1.0, intercept=-2.0)
        >>> [round(float(p), 2) for p in curve([0.1, 0.5, 0.9])]
        [0.01, 0.12, 0.55]
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    format: Literal["ragtune-calibration/1"] = "ragtune-calibration/1"
    model: str
    method: Method
    slope: NonNegativeFloat = 1.0
    intercept: float = 0.0
    scores: tuple[float, ...] = ()
    probabilities: tuple[float, ...] = ()
    dataset: str = ""
    queries: NonNegativeInt = 0
    pairs: NonNegativeInt = 0
    relevant: NonNegativeInt = 0
    before: Errors | None = None
    after: Errors | None = None

    @model_validator(mode="after")
    def _has_a_curve(self) -> Calibration:
        sizes = {len(self.scores), len(self.probabilities)}
        if self.method == "isotonic" and (sizes == {0} or len(sizes) > 1):
            raise ValueError("a curve needs as many probabilities as scores")
        return self

    def __call__(self, scores: Sequence[float] | FloatArray) -> FloatArray:
        """Return the probability of relevance of each score, which lies in [0, 1]."""
        if self.method == "isotonic":
            return np.asarray(np.interp(scores, self.scores, self.probabilities))
        return _logistic(self.slope * _logit(scores) + self.intercept)

    def save(self, file: Path) -> None:
        """Write it as JSON."""
        file.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, file: str | PathLike[str]) -> Calibration:
        """Read a file of :meth:`save`.

        Raises:
            ConfigError: if the file cannot be read, or is no calibration.
        """
        try:
            return cls.model_validate_json(Path(file).read_bytes())
        except OSError as error:
            raise ConfigError(f"calibration {str(file)!r}: cannot be read ({error.strerror})") from None
        except ValidationError:
            raise ConfigError(f"calibration {str(file)!r}: is no file of ragtune calibrate") from None


class JudgedPairs(NamedTuple):
    """Scores in [0, 1] of judged pairs, whether each document is relevant (0 or 1), and the number of its query."""

    scores: FloatArray
    relevant: FloatArray
    queries: IntArray

    def only(self, chosen: NDArray[np.bool_]) -> JudgedPairs:
        """Return the pairs at which the mask is true."""
        return JudgedPairs(self.scores[chosen], self.relevant[chosen], self.queries[chosen])


def fit(pairs: JudgedPairs, model: str, dataset: str = "") -> Calibration:
    """Fit the curve with the smaller error on held-out queries.

    Queries are held out a fifth at a time. ``after`` holds out the queries also for the choice of the method.

    Args:
        pairs: the judged pairs, of two queries or more, with relevant documents and others.
        model: the model whose scores they are.
        dataset: the collection's name, for the reader of the file.

    Raises:
        InputError: if all documents are relevant, or none, or there is one query only.
    """
    count, relevant = len(np.unique(pairs.queries)), int(pairs.relevant.sum())
    if count < 2 or not 0 < relevant < len(pairs.scores):
        raise InputError(
            f"{relevant} of {len(pairs.scores)} judged documents of {count} queries are relevant: needed are two "
            "queries, relevant documents and others"
        )
    made = _chosen(pairs, model)
    return made.model_copy(
        update={
            "dataset": dataset,
            "queries": count,
            "pairs": len(pairs.scores),
            "relevant": relevant,
            "before": errors_of(pairs.scores, pairs.relevant),
            "after": errors_of(_held_out(partial(_chosen, model=model), pairs), pairs.relevant),
        }
    )


def errors_of(probabilities: FloatArray, relevant: FloatArray) -> Errors:
    """Return the errors of probabilities against judgments, 0 or 1."""
    edges = np.unique(np.quantile(probabilities, np.arange(1, _BINS) / _BINS))
    bins = np.digitize(probabilities, edges)
    gaps = np.bincount(bins, probabilities - relevant)  # the sum of a bin, which is its mean gap times its share
    brier = float(np.mean((probabilities - relevant) ** 2))
    return Errors(ece=float(np.abs(gaps).sum() / len(relevant)), brier=brier)


def _chosen(pairs: JudgedPairs, model: str) -> Calibration:
    """The curve of the method with the smaller calibration error on held-out queries; of equal ones the simpler."""
    makers = [partial(_fitted, method=method, model=model) for method in METHODS]
    return min(makers, key=lambda make: errors_of(_held_out(make, pairs), pairs.relevant).ece)(pairs)


def _held_out(make: Callable[[JudgedPairs], Calibration], pairs: JudgedPairs) -> FloatArray:
    """The probability of each pair, by a curve that was fitted without its query."""
    queries, numbers = np.unique(pairs.queries, return_inverse=True)
    folds = np.random.default_rng(_FOLD_SEED).permutation(len(queries))[numbers] % min(_FOLDS, len(queries))
    found = np.empty(len(pairs.scores))
    for fold in range(folds.max() + 1):
        held = folds == fold
        found[held] = make(pairs.only(~held))(pairs.scores[held])
    return found


def _fitted(pairs: JudgedPairs, method: Method, model: str) -> Calibration:
    if method == "isotonic":
        from sklearn.isotonic import IsotonicRegression

        curve = IsotonicRegression(y_min=0.0, y_max=1.0).fit(pairs.scores, pairs.relevant)
        return Calibration(
            model=model,
            method=method,
            scores=tuple(curve.X_thresholds_.tolist()),
            probabilities=tuple(curve.y_thresholds_.tolist()),
        )
    slope, intercept = _platt(_logit(pairs.scores), pairs.relevant)
    return Calibration(model=model, method=method, slope=slope, intercept=intercept)


def _platt(logits: FloatArray, relevant: FloatArray) -> tuple[float, float]:
    """Slope, at least 0, and intercept by maximum likelihood; Platt's targets leave no class without a document."""
    from scipy.optimize import minimize

    count = relevant.sum()
    high, low = (count + 1.0) / (count + 2.0), 1.0 / (len(relevant) - count + 2.0)
    targets = np.where(relevant > 0, high, low)

    def loss(given: FloatArray) -> tuple[float, FloatArray]:
        linear = given[0] * logits + given[1]
        gaps = (_logistic(linear) - targets) / len(logits)
        return float(np.mean(np.logaddexp(0.0, linear) - targets * linear)), np.array([gaps @ logits, gaps.sum()])

    found = minimize(loss, [1.0, 0.0], jac=True, method="L-BFGS-B", bounds=[(0.0, None), (None, None)])
    return float(found.x[0]), float(found.x[1])


def _logit(scores: Sequence[float] | FloatArray) -> FloatArray:
    cut = np.clip(np.asarray(scores, dtype=float), _SMALLEST, 1.0 - _SMALLEST)
    return np.asarray(np.log(cut) - np.log1p(-cut))


def _logistic(linear: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * linear)))
