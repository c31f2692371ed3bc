"""Components that misbehave, for command lines under test.

Where the variable ``HANG_AT`` names a query, or a word of a text to embed, they are at work on it until killed.
"""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from patience import HANG_S

from ragtune.core.component import RerankerFacts
from ragtune.core.pool.items import PoolItem, RerankBatch
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Valuation
from ragtune.core.request.context import RAGtuneContext
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.rerankers.replay import ReplayReranker


def _work(seconds: float, hangs: bool) -> None:
    time.sleep(HANG_S if hangs else seconds)


class Slow(ReplayReranker):
    """Takes its time, and logs the query of every batch."""

    def __init__(self, seconds: float, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.seconds = seconds

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        with Path(os.environ["RERANK_LOG"]).open("a") as log:
            log.write(context.query_id + "\n")
        _work(self.seconds, os.environ.get("HANG_AT") == context.query_id)
        return super().rerank(items, context, strategy)


class Broken(ReplayReranker):
    """Fails on every batch that holds the document."""

    def __init__(self, on: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.on = on

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        if any(item.doc_id == self.on for item in items):
            raise RuntimeError("the model server is on fire")
        return super().rerank(items, context, strategy)


class Deadly(ReplayReranker):
    """Takes its process with it, as a model too large for its memory does."""

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        os._exit(1)


class BrokenPolicy(BaselineEstimator):
    """Fails on the queries that hold the word."""

    def __init__(self, on: str) -> None:
        super().__init__()
        self.on = on

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Valuation:
        if self.on in context.query:
            raise KeyError(self.on)
        return super().value(pool, context)


class Joint(ReplayReranker):
    """Scores the batches of many queries in one call, and logs how many these were."""

    def rerank_many(self, batches: Sequence[RerankBatch]) -> list[Mapping[str, float] | Exception]:
        with Path(os.environ["RERANK_LOG"]).open("a") as log:
            log.write(f"{len(batches)}\n")
        return super().rerank_many(batches)


class LiveSlow(Slow):
    """Counts as a model whose scores cost something."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.facts = RerankerFacts()


class LiveBroken(Broken):
    """Counts as a model whose scores cost something; the document may be cured by an environment variable."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.facts = RerankerFacts()

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        if os.environ.get("CURED"):
            self.on = ""
        return super().rerank(items, context, strategy)


class SlowEmbedder(HashingEmbedder):
    """Takes its time, and logs every text."""

    def embed(self, texts: Sequence[str]) -> Any:
        if len(texts):
            with Path(os.environ["EMBED_LOG"]).open("a") as log:
                log.writelines(text.replace("\n", " ") + "\n" for text in texts)
            _work(0.3, os.environ.get("HANG_AT", "no such word") in " ".join(texts))
        return super().embed(texts)


class Quitter(ReplayReranker):
    """Ends the program, as a script that was made a module does."""

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        raise SystemExit(0)
