"""What requests without judgments say against a reranker: sources that agree better with each other than it does."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from ragtune.core.errors import ConfigError
from ragtune.core.plain import quoted
from ragtune.core.policy.defaults import AUTO
from ragtune.core.statistics import chance, doubted, in_words
from ragtune.estimators.posterior.correlation import SourceCorrelation

SOURCES = 32
"""Sources that are followed; the names of more are a client's whim."""

DIAL = "trust (0 follows the sources, 1 the reranker)"
"""What a program can turn, as its users read it."""

_LONGEST = 100  # characters of the name of a source that is followed

_LATEST = 500  # requests by which the trust is set: a reranker may be swapped for another one

_REMEMBERED = 10_000
"""Latest queries of which a repetition counts no second time: that of a health check would become evidence."""

_SPREAD = 0.25
"""Where the sequential test is sharpest: at sums of squares of about eight times this, as some fifty requests have."""


class RerankerDoubtWarning(UserWarning):
    """A source agrees better with the other sources than the reranker does, by more than chance.

    Examples:
        >>> import warnings
        >>> from ragtune.facade.doubts import RerankerDoubtWarning
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", RerankerDoubtWarning)  # inside this block it is not shown
        ...     warnings.warn("the source 'bm25' agrees better", RerankerDoubtWarning)
    """


class Evidence(NamedTuple):
    """The margins of one source over requests, as sums, for a test that may be looked at after each of them.

    exp(l S - l^2 Q / 2) with the sum S and the sum of squares Q is a supermartingale for every l (de la Pena 1999), as
    is its mean over l ~ N(0, 1 / spread) (Howard et al. 2021); by Ville's inequality its reciprocal is a p-value.
    """

    requests: int = 0
    total: float = 0.0
    squares: float = 0.0

    def having(self, margin: float) -> Evidence:
        return Evidence(self.requests + 1, self.total + margin, self.squares + margin * margin)

    @property
    def mean(self) -> float:
        return self.total / max(self.requests, 1)

    @property
    def p(self) -> float:
        squares = self.squares + _SPREAD
        log_wealth = self.total**2 / (2.0 * squares) - 0.5 * math.log(squares / _SPREAD)
        return min(1.0, math.exp(-log_wealth))


def warn(doubt: str) -> None:
    """Issue a doubt as a Python warning."""
    warnings.warn(doubt, RerankerDoubtWarning, stacklevel=5)


class Doubts:
    """Whether requests, as they come, say that a source knows better than the reranker; thread-safe.

    With ``trust="auto"`` they set the dial as well: ``trust()`` is what the latest 500 queries say, each by its latest
    request, see :class:`~ragtune.estimators.posterior.correlation.SourceCorrelation`.
    Each source is reported once, at the level of 5% after Holm's correction for the sources so far. Memory is bounded:
    sums of up to 32 sources, and the latest 10,000 queries, of which a repetition does not count.
    ``tell`` receives a doubt in words, which say that a user may turn the ``dial``.

    Examples:
        >>> from ragtune import BudgetedReranker
        >>> from ragtune.facade.doubts import Doubts
        >>> lines = []
        >>> reranker = BudgetedReranker(lambda query, texts: [0.5] * len(texts), docs=1, doubts=Doubts(lines.append))
        >>> reranker.doubts.evidence, lines
        ({}, [])
    """

    def __init__(self, tell: Callable[[str], None] = warn, dial: str = DIAL) -> None:
        self._tell = tell
        self._dial = dial
        self._lock = threading.Lock()
        self._evidence: dict[str, Evidence] = {}
        self._queries: dict[str, None] = {}
        self._reported: set[str] = set()
        self._correlations: dict[str, float] = {}  # of the latest requests, each query once, oldest first

    def hear(self, query_id: str, margins: Mapping[str, float], correlation: float | None = None) -> None:
        """Take the margins of one request, by source; tell what is doubted now and was not before.

        ``correlation`` is that of its scores with the first stage, None where too few documents have a score.
        """
        with self._lock:
            if correlation is not None:
                self._correlations.pop(query_id, None)
                self._correlations[query_id] = correlation
                if len(self._correlations) > _LATEST:
                    del self._correlations[next(iter(self._correlations))]
            if (not margins and correlation is None) or query_id in self._queries:
                return
            self._queries[query_id] = None
            if len(self._queries) > _REMEMBERED:
                del self._queries[next(iter(self._queries))]
            for name, margin in margins.items():
                if name in self._evidence or (len(self._evidence) < SOURCES and len(name) <= _LONGEST):
                    self._evidence[name] = self._evidence.get(name, Evidence()).having(margin)
            found = doubted({name: (one.mean, one.p) for name, one in self._evidence.items()})
            new = []
            for name in [name for name in found if name not in self._reported]:
                seen = self._evidence[name]
                figure = f"by {seen.mean:+.3f} over {seen.requests} requests, {chance(found[name])}"
                new.append(in_words(name, figure, self._dial))
            self._reported.update(found)
        for words in new:
            self._tell(words)

    @property
    def evidence(self) -> dict[str, Evidence]:
        """What was seen so far, by source."""
        with self._lock:
            return dict(self._evidence)

    def dial(self, trust: float | Literal["auto"]) -> Any:
        """``trust`` as a policy takes it: the number, or what is asked for it once a request.

        Raises:
            ConfigError: on a word other than ``auto``.
        """
        if isinstance(trust, str) and trust != AUTO:
            raise ConfigError(f"trust={quoted(trust)}: allowed is a number in [0, 1], or {AUTO}")
        return self.trust if trust == AUTO else trust

    def trust(self) -> float:
        """How far the latest requests bear out the reranker, in [0, 0.5]; 0.5 before thirty of them."""
        with self._lock:
            return SourceCorrelation.of(tuple(self._correlations.values())).trust

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())
