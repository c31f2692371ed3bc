"""Whether a table's scores are on the scale that was declared for them."""

from __future__ import annotations

import warnings
from statistics import median

from ragtune.core.errors import ScoreTableError
from ragtune.core.plain import quoted
from ragtune.data.run import Run
from ragtune.rerankers.scale import ScoreScale

ENOUGH = 20
"""Pairs from which the scores of a table say on which scale they are."""

_NEAR_ZERO = -1.0
"""Log probabilities of the best documents lie above this: the model gives half of them more than exp(-1) = .37."""

_SURELY_LOG = -0.1
"""Best scores above this are log probabilities for sure: five tables of monoT5 have medians of -.005 to -.014."""

_IS_LOG = "at most 0, and the best of the queries are near 0"
_IS_SHARE = "in [0, 1]"
_IS_COSINE = "in [-1, 1]"


def looks_like(run: Run) -> ScoreScale:
    """The scale that the scores seem to be on.

    - ``log_prob``: all at most 0, and the best score of the median query is near 0;
    - ``identity``: all in [0, 1]. Cosines may lie there too, and no check can tell them apart for sure;
    - ``cosine``: all in [-1, 1];
    - ``logit``: anything else.
    """
    low, high = run.score_range()
    if high <= 0.0:
        return ScoreScale.LOG_PROB if _typical_best(run) > _NEAR_ZERO else ScoreScale.LOGIT
    if low >= 0.0 and high <= 1.0:
        return ScoreScale.IDENTITY
    return ScoreScale.COSINE if low >= -1.0 and high <= 1.0 + 1e-6 else ScoreScale.LOGIT


def check_scale(run: Run, declared: ScoreScale, path: str) -> None:
    """Refuse scores that cannot be on the declared scale, and warn of those that are probably on another.

    A wrong scale costs quality without a sign: monoT5's log probabilities read as logits give nDCG@10 .739 in place of
    .796 on TREC DL 2019. Tables of fewer than :data:`ENOUGH` pairs, and orders (``rank``), are not checked.

    Args:
        run: the scores as the file has them.
        declared: the scale that was asked for.
        path: of the file, for the message.

    Raises:
        ScoreTableError: naming the scale that fits.
    """
    low, high = run.score_range()
    if declared is ScoreScale.RANK or low == high or sum(len(run.scores(query_id)) for query_id in run) < ENOUGH:
        return
    seen = looks_like(run)
    where = f"reranker.scale={declared.value}: all scores of {quoted(path)} are"
    if seen is ScoreScale.LOG_PROB and declared is not ScoreScale.LOG_PROB:
        if declared is not ScoreScale.LOGIT or _typical_best(run) > _SURELY_LOG:
            raise ScoreTableError(f"{where} {_IS_LOG}: these are log probabilities, use reranker.scale=log_prob")
        _warn(
            f"{where} at most 0, and the best have a median of {_typical_best(run):.3g}: if they are log probabilities "
            "use reranker.scale=log_prob, if only their order counts rank"
        )
    if seen is ScoreScale.IDENTITY and declared is ScoreScale.LOGIT:
        raise ScoreTableError(
            f"{where} {_IS_SHARE}, so they are no logits: use reranker.scale=identity for probabilities, or cosine"
        )
    if seen is ScoreScale.COSINE and declared is ScoreScale.LOGIT:
        _warn(f"{where} {_IS_COSINE}: logits are rarely that small; reranker.scale=cosine fits as well")
    if seen is ScoreScale.LOGIT and declared is ScoreScale.LOG_PROB:
        _warn(
            f"{where} at most 0, but even the best are far below 0 (median {_typical_best(run):.3g}): if they are "
            "logits use reranker.scale=logit, if only their order counts rank"
        )
    if seen is ScoreScale.IDENTITY and declared is ScoreScale.COSINE and _share_near_zero(run) > 0.1:
        _warn(f"{where} {_IS_SHARE} and many are near 0: if they are probabilities use reranker.scale=identity")


def _warn(words: str) -> None:
    warnings.warn(words, stacklevel=5)


def _typical_best(run: Run) -> float:
    return median(max(run.scores(query_id).values()) for query_id in run)


def _share_near_zero(run: Run) -> float:
    scores = [score for query_id in run for score in run.scores(query_id).values()]
    return sum(score < 0.01 for score in scores) / len(scores)
