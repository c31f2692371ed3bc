"""RAGtune: where should the reranking budget go?

The names below are all that most programs need; components live in the folder of their group, one class a file.
"""

from typing import TYPE_CHECKING, Any

from ragtune.core.controller import RAGtuneController
from ragtune.core.output import ControllerOutput
from ragtune.core.request.budget import CostBudget, CostTracker
from ragtune.core.rounds import RetrievalPlan
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus, Document

if TYPE_CHECKING:
    from ragtune.facade.reranker import BudgetedReranker

__version__ = "0.1.0"

__all__ = [
    "BudgetedReranker",
    "ControllerOutput",
    "Corpus",
    "CostBudget",
    "CostTracker",
    "Document",
    "RAGtuneController",
    "RetrievalPlan",
    "ScoredDocument",
    "__version__",
]


def __getattr__(name: str) -> Any:
    # SciPy comes with it, which who needs the controller alone should not wait for.
    if name != "BudgetedReranker":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ragtune.facade.reranker import BudgetedReranker

    return BudgetedReranker
