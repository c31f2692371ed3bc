"""RAGtune: where should the reranking budget go?

The names below are all that most programs need; components live in the folder of their group, one class a file.
"""

import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ragtune._moved import MovedModules

if TYPE_CHECKING:
    from ragtune.core.controller import RAGtuneController
    from ragtune.core.output import ControllerOutput
    from ragtune.core.request.budget import CostBudget, CostTracker
    from ragtune.core.rounds import RetrievalDepths
    from ragtune.core.types import ScoredDocument
    from ragtune.data.corpus import Corpus, Document
    from ragtune.facade.reranker import BudgetedReranker

sys.meta_path.insert(0, MovedModules())

__version__ = "1.0.0"

__all__ = [
    "BudgetedReranker",
    "ControllerOutput",
    "Corpus",
    "CostBudget",
    "CostTracker",
    "Document",
    "RAGtuneController",
    "RetrievalDepths",
    "ScoredDocument",
    "__version__",
]

_HOMES = {
    "BudgetedReranker": "ragtune.facade.reranker",
    "ControllerOutput": "ragtune.core.output",
    "Corpus": "ragtune.data.corpus",
    "CostBudget": "ragtune.core.request.budget",
    "CostTracker": "ragtune.core.request.budget",
    "Document": "ragtune.data.corpus",
    "RAGtuneController": "ragtune.core.controller",
    "RetrievalDepths": "ragtune.core.rounds",
    "ScoredDocument": "ragtune.core.types",
}
"""Modules of the names, imported with the first use: the command line's help should not wait for NumPy and SciPy."""


def __getattr__(name: str) -> Any:
    if name == "RetrievalPlan":
        warnings.warn("RetrievalPlan is RetrievalDepths now; 1.1.0 removes it", DeprecationWarning, stacklevel=2)
        name = "RetrievalDepths"
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
