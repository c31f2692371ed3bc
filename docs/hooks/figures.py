"""python docs/hooks/figures.py: draws docs/img/posterior.svg, one query's estimates as scores arrive."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from experiments.config.compose import compose
from experiments.replay.build import build_session
from ragtune import RAGtuneController, RetrievalDepths
from ragtune.core.interfaces import BaseEstimator
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Valuation
from ragtune.core.request.context import RAGtuneContext

QUERY, SHOWN, MOMENTS = "q01", 30, (0, 4, 10)


class Watched(BaseEstimator):
    """An estimator whose answers are kept, with the scores that it had seen."""

    def __init__(self, estimator: BaseEstimator) -> None:
        self.estimator = estimator
        self.kept: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Valuation:
        answer = self.estimator.value(pool, context)
        self.kept[len(pool.reranked)] = (answer.mean, np.sqrt(answer.variance), pool.scores.copy())
        return answer


def main() -> None:
    """Run one query and draw it."""
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "ragtune"  # the same figure is the same file
    import matplotlib.pyplot as plt

    session = build_session(compose(["estimator=uncertainty", "budget=tight"]))
    watched = Watched(session.parts["estimator"])
    parts = {**session.parts, "estimator": watched}
    controller = RAGtuneController(**parts, reranker=session.rerankers, plan=RetrievalDepths(original_query_depth=100))

    controller.run(session.dataset.queries[QUERY], query_id=QUERY)
    figure, axes = plt.subplots(1, len(MOMENTS), figsize=(11, 3.3), sharey=True, layout="constrained")
    first = watched.kept[0][0][:SHOWN]
    for axis, moment in zip(axes, MOMENTS, strict=True):
        mean, deviation, scores = (column[:SHOWN] for column in watched.kept[moment])
        place = np.arange(1, len(mean) + 1)
        axis.plot(place, first, color="0.7", lw=1.2)
        axis.fill_between(place, np.clip(mean - deviation, 0, 1), np.clip(mean + deviation, 0, 1), color="#c5cae9")
        axis.plot(place, mean, color="#3949ab", lw=1.8)
        axis.plot(place, scores, "o", color="#ef6c00", ms=5)
        axis.set_title(f"{moment} documents scored" if moment else "before any score", fontsize=10)
        axis.set_xlabel("rank in the first stage")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("relevance")
    figure.savefig(Path(__file__).resolve().parents[1] / "img" / "posterior.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
