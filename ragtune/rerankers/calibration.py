"""Turns a reranker's scores into probabilities of relevance, so that one threshold means the same for every model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Literal, NamedTuple, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.errors import ConfigError, InputError
from ragtune.core.policy.scaling import logits

_BINS, _FOLDS, _KNOTS = 10, 5, 101
_SMALLEST = 1e-9  # distance from 0 and 1 at which a score is cut before its logit is taken


class Errors(NamedTuple):
    """Errors of probabilities: 0 is best.

    ``ece`` is the expected calibration error in ten bins of as many documents each (Naeini et al., AAAI 2015),
    ``brier`` the mean squared distance from the judgment, 0 or 1 (Brier 1950).

    Examples:
        >>> from ragtune.rerankers.calibration import Errors
        >>> Errors(ece=0.02, brier=0.11).ece
        0.02
    """

    ece: float
    brier: float


class Calibration(BaseModel):
    """A curve from scores to P(relevant), of one model. It never falls, so no order changes.

    Attributes:
        model: the model whose scores it is for.
        method: how it was fitted: ``platt`` (Platt 1999) or ``isotonic`` (Zadrozny and Elkan 2002).
        scores, probabilities: points of the curve, ascending, with straight lines between them.
        dataset, queries, documents, relevant: the judgments that it was fitted to.
        before, after: errors on held-out queries, of the scores as they are and of the curve.

    Examples:
        >>> from ragtune.rerankers.calibration import Calibration
        >>> Calibration(model="ce", method="isotonic", scores=(0.0, 1.0), probabilities=(0.0, 0.5))([0.4]).tolist()
        [0.2]
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    format: Literal["ragtune-calibration/1"] = "ragtune-calibration/1"
    model: str
    method: Literal["platt", "isotonic"]
    scores: tuple[float, ...] = Field(min_length=1)
    probabilities: tuple[float, ...] = Field(min_length=1)
    dataset: str = ""
    queries: int = 0
    documents: int = 0
    relevant: int = 0
    before: Errors = Errors(0.0, 0.0)
    after: Errors = Errors(0.0, 0.0)

    @model_validator(mode="after")
    def _is_curve(self) -> Self:
        scores, probabilities = np.array(self.scores), np.array(self.probabilities)
        if len(scores) != len(probabilities) or not np.isfinite([scores, probabilities]).all():
            raise ValueError("as many finite scores as probabilities are needed")
        if (np.diff(scores) < 0).any() or (np.diff(probabilities) < 0).any():
            raise ValueError("scores and probabilities must not fall")
        if probabilities[0] < 0.0 or probabilities[-1] > 1.0:
            raise ValueError("probabilities lie in [0, 1]")
        return self

    def __call__(self, scores: Sequence[float] | FloatArray) -> FloatArray:
        """Return the probability of relevance of each score, which lies in [0, 1]."""
        return np.asarray(np.interp(scores, self.scores, self.probabilities))

    @classmethod
    def load(cls, file: str | PathLike[str]) -> Calibration:
        """Read a file of ``ragtune calibrate``; ConfigError if it is none."""
        try:
            return cls.model_validate_json(Path(file).read_bytes())
        except (OSError, ValidationError) as error:
            why = error.strerror if isinstance(error, OSError) else "ragtune calibrate has not made it"
            raise ConfigError(f"calibration {str(file)!r}: {why}") from None


class Judged(NamedTuple):
    """Judged documents: scores in [0, 1], whether each is relevant (0 or 1), and the number of its query.

    Examples:
        >>> import numpy as np
        >>> from ragtune.rerankers.calibration import Judged
        >>> len(Judged(np.array([0.9, 0.2]), np.array([1.0, 0.0]), np.array([0, 0])).scores)
        2
    """

    scores: FloatArray
    relevant: FloatArray
    queries: IntArray


Fit = Callable[[Judged], tuple[FloatArray, FloatArray]]
"""Makes the points of a curve."""


def fit(judged: Judged, model: str, dataset: str = "") -> Calibration:
    """Fit the curve with the smaller calibration error on held-out queries, a fifth of them at a time.

    The errors in the result hold queries out for the choice of the method, too. InputError where there are not three
    queries, relevant documents and others.

    Examples:
        >>> import numpy as np
        >>> from ragtune.rerankers.calibration import Judged, fit
        >>> scores, queries = np.array([0.9, 0.2, 0.8, 0.1, 0.7, 0.3]), np.array([0, 0, 1, 1, 2, 2])
        >>> fit(Judged(scores, np.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0]), queries), model="ce").relevant
        3
    """
    queries, documents, relevant = len(np.unique(judged.queries)), len(judged.scores), int(judged.relevant.sum())
    if queries < 3 or not 0 < relevant < documents:
        raise InputError(
            f"{relevant} of {documents} judged documents of {queries} queries are relevant: needed are three queries, "
            "relevant documents and others"
        )
    method = _best(judged)
    scores, probabilities = _FITS[method](judged)
    return Calibration(
        model=model,
        method=method,
        scores=tuple(scores.tolist()),
        probabilities=tuple(probabilities.tolist()),
        dataset=dataset,
        queries=queries,
        documents=documents,
        relevant=relevant,
        before=errors_of(judged.scores, judged.relevant),
        after=errors_of(_held_out(lambda part: _FITS[_best(part)](part), judged), judged.relevant),
    )


def errors_of(probabilities: FloatArray, relevant: FloatArray) -> Errors:
    """Return the errors of probabilities against judgments, 0 or 1."""
    edges = np.unique(np.quantile(probabilities, np.arange(1, _BINS) / _BINS))
    gaps = np.bincount(np.digitize(probabilities, edges), probabilities - relevant)
    return Errors(float(np.abs(gaps).sum() / len(relevant)), float(np.mean((probabilities - relevant) ** 2)))


def _best(judged: Judged) -> Literal["platt", "isotonic"]:
    return min(_FITS, key=lambda method: errors_of(_held_out(_FITS[method], judged), judged.relevant).ece)


def _held_out(make: Fit, judged: Judged) -> FloatArray:
    """The probability of each document, by a curve that was fitted without its query."""
    queries, numbers = np.unique(judged.queries, return_inverse=True)
    folds = np.random.default_rng(0).permutation(len(queries))[numbers] % min(_FOLDS, len(queries))
    found = np.empty(len(judged.scores))
    for fold in range(folds.max() + 1):
        held = folds == fold
        found[held] = np.interp(judged.scores[held], *make(Judged(*(column[~held] for column in judged))))
    return found


def _isotonic(judged: Judged) -> tuple[FloatArray, FloatArray]:
    from sklearn.isotonic import IsotonicRegression

    curve = IsotonicRegression(y_min=0.0, y_max=1.0).fit(judged.scores, judged.relevant)
    return curve.X_thresholds_, curve.y_thresholds_


def _platt(judged: Judged) -> tuple[FloatArray, FloatArray]:
    """A logistic curve of the score's logit, flat where it would fall; two further documents leave no class empty."""
    from sklearn.linear_model import LogisticRegression

    own = logits(judged.scores, _SMALLEST)[:, None]
    found = LogisticRegression().fit([*own, *[own.mean(axis=0)] * 2], [*judged.relevant, 0.0, 1.0])
    scores = np.unique(np.quantile(judged.scores, np.linspace(0.0, 1.0, _KNOTS)))
    curve = found.predict_proba(logits(scores, _SMALLEST)[:, None])[:, 1]
    return scores, curve if found.coef_[0, 0] > 0.0 else np.full(len(scores), judged.relevant.mean())


_FITS: dict[Literal["platt", "isotonic"], Fit] = {"platt": _platt, "isotonic": _isotonic}
