"""Windows as observations of the posterior over relevance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ragtune.core.arguments import check_count, check_number, check_positive
from ragtune.core.arrays import FloatArray
from ragtune.core.interfaces import TextVectors
from ragtune.core.pool.items import PoolItem
from ragtune.data.corpus import Corpus
from ragtune.estimators._first_stage import first_stage_evidence
from ragtune.estimators._order import PlackettLucePosterior
from ragtune.estimators._posterior import Prior, RelevancePosterior
from ragtune.estimators._windows import Ask, Play, WindowEstimator


class PlackettLuceEstimator(WindowEstimator):
    def __init__(
        self,
        corpus: Corpus | None,
        vectors: Callable[[Any], TextVectors],
        window: int = 20,
        top_k: int = 10,
        temperature: float = 0.2,
        own_variance: float = 0.3,
        samples: int = 128,
        rule: str = "discount",
        **prior: float,
    ) -> None:
        super().__init__(window, top_k)
        self._vectors = vectors(corpus)
        self._prior = Prior(**prior)
        self.temperature = check_positive("estimator.temperature", temperature)
        self.own_variance = check_number("estimator.own_variance", own_variance, low=0.0)
        self.samples = check_count("estimator.samples", samples, low=2)
        self.rule = rule

    def play(self, items: Sequence[PoolItem], calls: int | None) -> Play:
        posterior = self._start(items)
        draws = np.random.default_rng(0).standard_normal((self.samples, len(items)))
        count = 0
        while True:
            ranking = best_first(posterior.mean)
            if count == 0:
                window = ranking[: self.window]
            else:
                window = self.choose(posterior, draws, ranking)
            count += 1
            place = {p: i for i, p in enumerate(ranking)}
            window = sorted(window, key=place.__getitem__)
            posterior.learn((yield Ask(window, ranking)).tiers)

    def choose(self, posterior, draws, ranking):
        n = len(ranking)
        values, vectors = np.linalg.eigh(posterior.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        sampled = posterior.mean + draws @ root.T
        ranks = np.argsort(np.argsort(-sampled, axis=1, kind="stable"), axis=1)
        disc = np.where(ranks < self.top_k, 1.0 / np.log2(2.0 + ranks), 0.0)
        if self.rule == "discount":
            u = disc.std(axis=0)
        elif self.rule == "gain":
            u = disc.mean(axis=0)
        elif self.rule == "prob":
            p = (ranks < self.top_k).mean(axis=0); u = p * (1 - p)
        elif self.rule == "probs":
            p = (ranks < self.top_k).mean(axis=0); u = p
        elif self.rule == "mixed":
            p = (ranks < self.top_k).mean(axis=0); u = np.sqrt(p * (1 - p)) + disc.std(axis=0)
        elif self.rule.startswith("ucb"):
            k = float(self.rule[3:])
            u = posterior.mean + k * np.sqrt(np.diag(posterior.covariance))
        order = np.lexsort((-posterior.mean, -u))
        return [int(p) for p in order[: self.window]]

    def _start(self, items: Sequence[PoolItem]) -> PlackettLucePosterior:
        prior = RelevancePosterior(first_stage_evidence(items), self._vectors.of(items), self._prior)
        nothing = prior.factor.having(0)
        rows = [prior.row(position, nothing, prior.variance) for position in range(len(items))]
        covariance = np.stack([row * pivot for row, pivot in rows])
        covariance += self.own_variance * np.eye(len(items))
        return PlackettLucePosterior(prior.mean, covariance, self.temperature)


def best_first(mean: FloatArray) -> list[int]:
    return [int(position) for position in np.argsort(-mean, kind="stable")]
