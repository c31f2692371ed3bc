"""A budget behind the ``rank()`` and ``predict()`` of sentence-transformers' ``CrossEncoder``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtune.core.errors import InputError
from ragtune.core.plain import quoted
from ragtune.facade.reranker import BudgetedReranker, Given
from ragtune.frameworks.shared import ESTIMATED, reranker_from, warn_of

_HOW_NOT_WHAT = {"batch_size", "show_progress_bar", "num_workers", "device", "pool", "chunk_size"}
_HOW_NOT_WHAT |= {"convert_to_numpy", "convert_to_tensor"}
"""Arguments of a ``CrossEncoder`` that decide no score; the model has its own."""

_OF_THE_MODEL = ("prompt", "prompt_name", "activation_fn", "apply_softmax", "processing_kwargs")


class BudgetedCrossEncoder:
    """Takes the place of a ``CrossEncoder`` in code that calls its ``rank()`` or ``predict()``.

    Arguments that decide a score, such as ``prompt``, belong to the model: they are refused.
    """

    num_labels = 1  # scores of a pair: the model is a reranker

    def __init__(self, model: Any, **options: Any) -> None:
        self.model, self.options = model, options
        self.reranker: BudgetedReranker = reranker_from(model, options)

    def rank(
        self,
        query: str,
        documents: Sequence[Given],
        top_k: int | None = None,
        return_documents: bool = False,
        **further: Any,
    ) -> list[dict[str, Any]]:
        """``corpus_id`` and ``score`` of every document, best first, and its ``text`` if ``return_documents``.

        ``score`` is the model's, or an estimate where ``estimated`` is true.

        Raises:
            InputError: on unusable input, naming it.
        """
        ranking = self.reranker.rank(query, documents, top_k=top_k, **_of_rank(further))
        warn_of(ranking)
        return [
            {"corpus_id": ranked.index, "score": ranked.score, ESTIMATED: ranked.estimated}
            | ({"text": ranked.document} if return_documents else {})
            for ranked in ranking
        ]

    def predict(
        self,
        inputs: Sequence[tuple[str, str]] | NDArray[np.str_] | tuple[str, str],
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        **further: Any,
    ) -> Any:
        """Scores of (query, text) pairs, shape (n,), of one pair a scalar; each query has the budget, best pairs first.

        The scores are an array, a tensor, or with ``convert_to_numpy=False`` a list of tensors. Where the model did not
        score a pair the number is an estimate: :meth:`rank` tells which.

        Raises:
            InputError: on unusable input, naming it.
        """
        for name in {"top_k", "min_score"} & further.keys():
            raise InputError(f"{name}: allowed in rank(), since predict() gives every pair a score")
        pairs = inputs.tolist() if isinstance(inputs, np.ndarray) else list(inputs)
        is_one = len(pairs) == 2 and all(isinstance(each, str) for each in pairs)
        pairs, places = [pairs] if is_one else pairs, dict[str, list[int]]()
        for place, pair in enumerate(pairs):
            if not isinstance(pair, (list, tuple)) or len(pair) != 2:
                raise InputError(f"pair {place} is {quoted(pair)}: allowed is a query with a text")
            places.setdefault(pair[0], []).append(place)
        jobs = [(query, [pairs[place][1] for place in own]) for query, own in places.items()]
        rankings = self.reranker.rank_many(jobs, **_of_rank(further))
        warn_of(*rankings)
        scores = np.empty(len(pairs), dtype=np.float32)
        for own, ranking in zip(places.values(), rankings, strict=True):
            scores[[own[ranked.index] for ranked in ranking]] = [ranked.score for ranked in ranking]
        if convert_to_tensor or not convert_to_numpy:
            import torch

            scores = torch.from_numpy(scores) if convert_to_tensor else list(torch.from_numpy(scores))  # type: ignore[assignment]
        return scores[0] if is_one else scores


def _of_rank(further: dict[str, Any]) -> dict[str, Any]:
    for name in _OF_THE_MODEL:
        if further.pop(name, None) not in (None, False):
            raise InputError(f"{name}: give it to the CrossEncoder that the budget is put around")
    return {name: value for name, value in further.items() if name not in _HOW_NOT_WHAT}
