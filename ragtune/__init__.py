"""RAGtune: where should the reranking budget go?

The names below are all that most programs need; components live in the folder of their group, one class a file.
"""

from ragtune.core.controller import RAGtuneController
from ragtune.core.output import ControllerOutput
from ragtune.core.request.budget import CostBudget, CostTracker
from ragtune.core.rounds import RetrievalPlan
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus, Document

__version__ = "0.1.0"

__all__ = [
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
