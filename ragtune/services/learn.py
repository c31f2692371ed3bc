"""A budget that a server chooses from its own requests, and a gate that closes where the model seems to do harm."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ragtune.core.arrays import FloatArray
from ragtune.core.errors import ConfigError
from ragtune.core.policy.scaling import rank_correlation
from ragtune.core.statistics import BETS, gain_kept
from ragtune.facade.doubts import Doubts
from ragtune.facade.policies import Policy
from ragtune.facade.ranking import Ranking
from ragtune.facade.reranker import BudgetedReranker, Job

BUDGETS = (100, 60, 40, 30, 20, 10)
"""Documents a query, from which the server chooses."""

TOLERANCE = 0.06
"""Mean loss of nDCG@10 by the model's scores that is allowed, each request's scores stretched to [0, 1]."""

_FIRST = 200  # requests that are read in full before anything is chosen
_PROOF = math.log(20.0)  # wealth at which a budget is shown to do, at the level of 5%
_ALARM = 80_000.0  # requests between two false alarms on average, at least
_USEFUL = 0.55  # of (1 + correlation) / 2: trust=auto holds a model of less agreement for useless
_DEPTH, _LEAST = 10, 5
_KIND, _EVIDENCE = "ragtune serve --learn 1", ("seen", "closed", "wealth", "shown", "worse", "doubt")

Orders = Callable[[Job, dict[int, float], Sequence[int]], list[list[int]]]
"""Ranks a job by known scores under each budget in documents, positions best first."""


class Learner:
    """Takes the smallest budget that is shown to lose little; all evidence is in a file, which a crash cannot tear.

    A budget is shown where a betting confidence sequence has its mean loss at most at the tolerance, and those above it
    too. Two detectors look at each request (sums of products of bets, Shin, Ramdas and Rinaldo 2023). Where the loss
    has risen, all is read again, and learned anew. Where the scores agree too little with the first stage, the gate
    closes: nothing is scored until the file is removed. Thread-safe.
    """

    def __init__(self, file: Path, tolerance: float, orders: Orders, tell: Callable[[str], None]) -> None:
        self._file, self._tolerance, self._orders, self._tell = file, tolerance, orders, tell
        self._lock = threading.Lock()
        self._heard = self._seen = self._steps = 0
        self._wealth = np.zeros((len(BUDGETS), len(BETS)))
        self._shown = np.zeros(len(BUDGETS), dtype=bool)
        self._worse = np.zeros(len(BETS))
        self._doubt = np.zeros(len(BETS))
        self._closed = False
        if file.exists():
            self._read()
        else:
            self._write()

    @property
    def limits(self) -> dict[str, float]:
        """The budget of the next request; none to read all its documents."""
        with self._lock:
            if self._closed:
                return {"docs": 0}
            return {} if not self._steps or self._seen < _FIRST else {"docs": BUDGETS[self._steps - 1]}

    def measure(self, job: Job, everything: Ranking) -> None:
        """Learn from a request of which the model has scored all documents."""
        scores = {one.index: one.reranker_score for one in everything if one.reranker_score is not None}
        if len(scores) < len(everything) or len(scores) <= _DEPTH:
            return
        low, spread = min(scores.values()), max(scores.values()) - min(scores.values())
        gains = {index: (score - low) / spread if spread else 1.0 for index, score in scores.items()}
        orders = self._orders(job, scores, BUDGETS)
        losses = np.array([1.0 - gain_kept(order, gains, _DEPTH) for order in orders])
        with self._lock:
            if self._steps and self._seen >= _FIRST:
                self._worse = _bet(self._worse, float(losses[self._steps - 1]) - self._tolerance, self._tolerance)
            self._seen += 1
            self._wealth += np.log1p(BETS * (self._tolerance - losses[:, None]))
            shown = np.logaddexp.reduce(self._wealth, axis=1) - math.log(len(BETS)) >= _PROOF
            self._shown |= shown
            self._steps = int(np.logical_and.accumulate(self._shown).sum())
            if self._worse.mean() >= _ALARM:
                self._seen = self._steps = 0
                for evidence in (self._wealth, self._shown, self._worse):
                    evidence[:] = 0
                self._tell("the learned budget loses more than before: all documents are read, and it is learned anew")
            self._write()

    def hear(self, job: Job, ranking: Ranking) -> None:
        """Take the rank correlation of an answer's scores with the first stage."""
        named = next(iter(job.scores.values()), None) if isinstance(job.scores, Mapping) else job.scores
        first = [-float(index) for index in range(len(ranking))] if named is None else named
        both = [(first[one.index], one.reranker_score) for one in ranking]
        known = np.array([pair for pair in both if None not in pair], dtype=float)
        if len(known) < _LEAST:
            return
        correlation = rank_correlation(*known.T)
        with self._lock:
            if self._closed:
                return
            self._heard += 1
            self._doubt = _bet(self._doubt, _USEFUL - (1.0 + correlation) / 2.0, 1.0 - _USEFUL)
            if self._doubt.mean() >= _ALARM:
                self._closed = True
                self._tell(
                    "the model's scores do not agree with the first stage, as those of useful models do: documents "
                    f"stay in the first stage's order; remove {self._file} and restart to learn anew"
                )
                self._write()
            elif self._heard % 20 == 0:
                self._write()

    def _write(self) -> None:
        evidence = {name: np.asarray(getattr(self, f"_{name}")).tolist() for name in _EVIDENCE}
        beside = self._file.with_name(f"{self._file.name}.new")
        try:
            beside.write_text(json.dumps({_KIND: self._tolerance} | evidence), encoding="utf-8")
            beside.replace(self._file)
        except OSError as error:
            self._tell(f"{self._file}: what was learned could not be written ({error})")

    def _read(self) -> None:
        try:
            state = json.loads(self._file.read_text(encoding="utf-8"))
            for name in _EVIDENCE:
                found, known = np.array(state[name]), np.asarray(getattr(self, f"_{name}"))
                if found.shape != known.shape or not np.can_cast(found.dtype, known.dtype):
                    raise ValueError(name)
                setattr(self, f"_{name}", found.astype(known.dtype) if found.ndim else found.item())
            is_same = state[_KIND] == self._tolerance
        except (OSError, ValueError, KeyError, TypeError):
            is_same = False
        if not is_same:
            raise ConfigError(
                f"--learn {self._file}: is no state of this option and tolerance; remove it to learn anew"
            )
        self._steps = int(np.logical_and.accumulate(self._shown).sum())


def replayed(policy: Policy) -> Orders:
    """Ranks jobs by a policy with scores that are known; not for two threads at once."""
    known: dict[str, float] = {}
    ranker = BudgetedReranker(
        lambda query, texts: [known[text] for text in texts], policy=policy, docs=1, doubts=Doubts(lambda doubt: None)
    )

    def orders(job: Job, scores: dict[int, float], budgets: Sequence[int]) -> list[list[int]]:
        known.clear()
        known.update((str(job.documents[index]), score) for index, score in scores.items())
        return [[one.index for one in ranker.rank(**job._asdict(), budget={"docs": docs})] for docs in budgets]

    return orders


def _bet(sums: FloatArray, gain: float, most: float) -> FloatArray:
    """The detector's sums after one more value, ``gain`` above its mean; a loss is at most ``most``."""
    found: FloatArray = (sums + 1.0) * (1.0 + BETS / most * gain)
    return found
