"""A budgeted reranker as a PyTerrier transformer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from ragtune.core.errors import InputError, MissingExtraError
from ragtune.facade.ranking import RankedDocument
from ragtune.facade.reranker import BudgetedReranker, Job
from ragtune.frameworks.shared import name_of, reranker_from, warn_of

try:
    import pandas as pd
    import pyterrier as pt
except ImportError as error:
    raise MissingExtraError("ragtune.frameworks.pyterrier", "pyterrier") from error


class BudgetedTransformer(pt.Transformer):
    """Reranks every query's results: ``first_stage >> pt.text.get_text(...) >> BudgetedTransformer(model, docs=20)``.

    Takes frames with ``qid``, ``query``, ``docno`` and the texts, gives them back best first with new ``score`` and
    ``rank`` and all other columns as they were. ``score`` falls with the rank, since PyTerrier sorts by it. The model's
    own score is in ``reranker_score``; ``estimated`` is true where there is none. The first stage's order is that of
    ``score``, without it of ``rank``, without either of the rows; a column ``doc_vec`` tells which documents are alike.
    All queries of a frame are reranked in lockstep.

    ``model`` is a ``BudgetedReranker``, or its first argument beside the others as ``options``, which are parameters
    for ``pt.GridScan``, too. Signals are columns. A ``ScorerCache`` would keep estimates as scores: put
    ``cache_dir="auto"`` among the options instead, which caches the model's scores alone.
    """

    def __init__(
        self,
        model: Any,
        *,
        top_k: int | None = None,
        text_field: str = "text",
        signals: Sequence[str] = (),
        **options: Any,
    ) -> None:
        super().__init__()
        self.model, self.options = model, options
        self.top_k, self.text_field, self.signals = top_k, text_field, list(signals)
        self._reranker: BudgetedReranker = reranker_from(model, options)

    def __repr__(self) -> str:
        told = [name_of(self.model), *(f"{name}={value}" for name, value in self.options.items())]
        return f"{type(self).__name__}({', '.join(told)})"

    def get_parameter(self, name: str) -> Any:
        return self.options[name] if name in self.options else super().get_parameter(name)

    def set_parameter(self, name: str, value: Any) -> None:
        if name not in self.options:
            super().set_parameter(name, value)
        options = {**self.options, name: value} if name in self.options else self.options
        self._reranker = reranker_from(self.model, options)
        self.options = options  # only those that the reranker takes

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        pt.validate.columns(inp, includes=["qid", "query", "docno", self.text_field, *self.signals])
        if inp.empty:
            return _ranked(inp, [])
        if count := int(inp["qid"].isna().sum()):
            raise InputError(f"{count} of {len(inp)} rows have no qid: allowed is one for each row")
        by_rank = "rank" in inp and "score" not in inp
        groups = [rows for _, rows in inp.groupby("qid", sort=False)]
        queries = [rows.sort_values("rank", kind="stable") if by_rank else rows for rows in groups]
        rankings = self._reranker.rank_many([self._job(rows) for rows in queries], top_k=self.top_k)
        warn_of(*rankings)
        return pd.concat(map(_ranked, queries, rankings), ignore_index=True)

    def _job(self, rows: pd.DataFrame) -> Job:
        scores, vectors = (rows[name].tolist() if name in rows else None for name in ("score", "doc_vec"))
        signals = {name: [None if pd.isna(value) else value for value in rows[name]] for name in self.signals}
        return Job(rows["query"].iloc[0], rows[self.text_field].tolist(), scores, vectors, signals)


def _ranked(rows: pd.DataFrame, ranking: Sequence[RankedDocument]) -> pd.DataFrame:
    ranked = rows.iloc[[document.index for document in ranking]]
    # The ranking also weighs the sources, so scores may rise down the list: the nearest sequence that never does.
    shown = [document.score for document in ranking]
    scores = strictly_falling(isotonic_regression(shown, increasing=False).x.tolist() if shown else shown)
    own = [document.reranker_score for document in ranking]
    return ranked.assign(
        reranker_score=np.array(own, dtype=float),
        estimated=[document.estimated for document in ranking],
        score=np.array(scores, dtype=float),
        rank=np.arange(len(scores)) + pt.model.FIRST_RANK,
    )


def strictly_falling(scores: Sequence[float]) -> list[float]:
    """The scores, lowered where need be by the least that a measure can tell, so that no two are equal.

    Measures sort by score, in single precision, and break ties by document id: an order of equals would be lost.
    """
    falling: list[float] = []
    for score in scores:
        above = np.float32(falling[-1]) if falling else np.float32(np.inf)
        falling.append(score if np.float32(score) < above else float(np.nextafter(above, np.float32(-np.inf))))
    return falling
