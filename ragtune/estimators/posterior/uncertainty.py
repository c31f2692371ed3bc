"""A posterior with a variance over the relevance of every candidate."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from ragtune.core.arguments import check_count, check_number, check_vectors
from ragtune.core.arrays import FloatArray
from ragtune.core.interfaces import BaseEstimator, TextVectors
from ragtune.core.passages import PassagePool
from ragtune.core.policy.scaling import with_twins_level
from ragtune.core.pool.columns import read_only
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Belief, Valuation
from ragtune.core.request.context import RAGtuneContext
from ragtune.data.corpus import Corpus
from ragtune.estimators.posterior._first_stage import contradiction, first_stage_evidence
from ragtune.estimators.posterior._posterior import Prior, RelevancePosterior, next_row
from ragtune.estimators.posterior.correlation import CORRELATION

MARGINS = "margins"
"""In the trace: by how much each source agrees better with the other sources than the reranker does."""

_ROOM = 32  # rows of documents that are supposed one after the other

_TINY = 1e-6  # the least noise and scale: below it, rounding decides


class UncertaintyEstimator(BaseEstimator):
    """Gaussian posterior over relevance from every first-stage signal, text similarity and the scores seen so far.

    The model is in docs/components/estimators.md; the regression is that of Rasmussen and Williams (2006, chapter 2).
    Where several strategies score, the logits of the others are calibrated to the first one's.

    It gives the mean on the rerankers' scale in [0, 1], a belief for acquisition functions, and the posterior key for
    ``ordering=posterior``: mean + (1 - trust) / trust * corroboration * first-stage evidence.
    In an expanded pool, the mean of a scored document moves towards its own score by the share of the documents that
    a corpus graph found: those were chosen because they read like what scored well, so that likeness says less and
    less about them. The second part keeps what several first-stage sources agree on and the reranker does not explain,
    so that more budget does not hurt.

    ``trust`` says whose word counts, where scores cannot tell: 1 orders scored documents by the reranker alone, 0 all
    documents by the sources alone. Between them it sets both the odds that what a score says beyond its neighbours is
    relevance rather than noise (``own_variance`` against ``noise``, at their given odds where trust is 0.5) and the
    weight of the sources' evidence. A function is asked once a request, so that it may follow what requests show.
    """

    def __init__(
        self,
        corpus: Corpus | None,
        vectors: Callable[[Any], TextVectors],
        trust: float | Callable[[], float] = 0.5,
        echoes: Collection[str] = (),
        **prior: float,
    ) -> None:
        self._vectors = check_vectors("estimator.vectors", vectors)(corpus)
        self.trust = trust if callable(trust) else check_number("estimator.trust", trust, low=0.0, high=1.0)
        self.echoes = frozenset(echoes)
        self._prior = _checked(Prior(**prior))  # type: ignore[arg-type]

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Valuation:
        posterior = context.remember(self, lambda: self._start(pool))
        if len(pool) > len(posterior):
            posterior.extend(self._vectors.of(pool.entries[len(posterior) :]))
        reranked = pool.reranked
        new = reranked[~posterior.scored[reranked]]
        if len(new):
            posterior.update(new, pool.scores[new], map(pool.strategy_of, new))
        return self._valuation(pool, posterior)

    def _start(self, pool: CandidatePool) -> RelevancePosterior:
        rows = self._vectors.of(pool.entries)
        documents = (pool.documents.items, pool.parents) if isinstance(pool, PassagePool) else (pool.entries, None)
        evidence = first_stage_evidence(documents[0], rows, self.echoes, documents[1])
        trust = self.trust() if callable(self.trust) else self.trust
        return RelevancePosterior(evidence, rows, _trusted(self._prior, trust), trust)

    def _valuation(self, pool: CandidatePool, posterior: RelevancePosterior) -> Valuation:
        correlation, margins = posterior.correlation, posterior.margins
        corroboration = posterior.corroboration + contradiction(correlation or 0.0, len(posterior.factor))
        key = read_only(with_twins_level(self._key(posterior, corroboration), pool))
        belief = PosteriorBelief(posterior, key, posterior.noise)
        scale = 1.0 / posterior.inverse_scale
        mean = _on_score_scale(posterior.mean * scale, belief.variance * scale**2)
        return pool.valuation(
            read_only(mean),
            posterior=key,
            belief=belief,
            diagnostics={
                "scored": len(posterior.factor),
                "logit_scale": round(scale, 6),
                "corroboration": round(corroboration, 6),
                **({} if correlation is None else {CORRELATION: round(correlation, 6)}),
                "regularised": posterior.regularised,
                **({MARGINS: {name: round(value, 6) for name, value in margins.items()}} if margins else {}),
            },
        )

    def _key(self, posterior: RelevancePosterior, corroboration: float) -> FloatArray:
        # Before any score, nothing bears out what likeness to the top documents says.
        if posterior.trust == 0.0 or not posterior.scored.any():
            return posterior.evidence.copy()
        key: FloatArray = posterior.mean
        if discovered := posterior.discovered:
            own = np.where(posterior.scored, posterior.inverse_scale * posterior.own_logits - posterior.mean, 0.0)
            key = key + discovered * own
        return key + corroboration * (1.0 - posterior.trust) / posterior.trust * posterior.evidence


def _trusted(prior: Prior, trust: float) -> Prior:
    """The prior with what a score says of its document alone divided between relevance and noise as ``trust`` says."""
    own, noise = trust * prior.own_variance, (1.0 - trust) * prior.noise
    share = own / (own + noise) if own + noise > 0.0 else 0.0
    whole = prior.own_variance + prior.noise
    return replace(prior, own_variance=share * whole, noise=max((1.0 - share) * whole, _TINY))


def _on_score_scale(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Mean of sigmoid(x), x ~ N(mean, variance), after MacKay (1992)."""
    return 1.0 / (1.0 + np.exp(-mean / np.sqrt(1.0 + np.pi * variance / 8.0)))


def _checked(prior: Prior) -> Prior:
    tiny = ("noise", "scale", "scale_strength")
    anything = ("intercept", "evidence_slope", "feedback_slope")
    for name, value in asdict(prior).items():
        if name == "feedback_docs":
            check_count(f"estimator.{name}", value, low=1)
        else:
            check_number(f"estimator.{name}", value, low=-np.inf if name in anything else _TINY * (name in tiny))
    return prior


class PosteriorBelief(Belief):
    """The posterior as acquisition functions see it; a snapshot that later updates do not reach."""

    def __init__(self, posterior: RelevancePosterior, key: FloatArray, noise: float) -> None:
        self._covariance, self._factor = posterior.covariance, posterior.factor
        self._room, self._filled = self._factor, [len(self._factor)]
        self._raw_variance = posterior.variance
        self.mean = posterior.mean
        self.variance = np.maximum(posterior.variance, 0.0)
        self.key = key
        self.noise = noise

    def observing(self, position: int) -> PosteriorBelief:
        column = self._covariance.column(position)
        row, _ = next_row(position, column, self._factor, self._raw_variance, self.noise)
        after = PosteriorBelief.__new__(PosteriorBelief)
        after.__dict__ |= self.__dict__
        k = len(self._factor)
        if self._filled != [k] or k == len(self._room):  # the row behind this belief is another's, or there is none
            after._room, after._filled = np.empty((k + _ROOM, len(row))), [k]
            after._room[:k] = self._factor
        after._room[k], after._filled[0] = row, k + 1  # a copy of all rows for each document takes longest of all
        after._factor = after._room[: k + 1]
        after._raw_variance = self._raw_variance - row * row
        after.variance = np.maximum(after._raw_variance, 0.0)
        return after
