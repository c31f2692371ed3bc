"""Old paths of modules that have moved: an import of one works until 1.1.0, with a DeprecationWarning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_FOLDERS = {
    "ragtune.estimators.comparing": (
        *("acurank", "blitzrank", "jointrank", "knockout", "plackett_luce"),
        *("setwise_insertion", "sliding", "tdpart", "tourrank"),
    ),
    "ragtune.estimators.graph": ("gar", "ore", "quam", "rgs"),
    "ragtune.estimators.posterior": ("bagel", "similarity", "uncertainty"),
    "ragtune.rerankers.models": ("bi_encoder", "cross_encoder"),
}
"""Modules that went into a folder of their package, by that folder."""

_FRAMEWORKS = ("haystack", "langchain", "llamaindex", "pyterrier", "sentence_transformers")

MOVED = (
    {f"{folder.rpartition('.')[0]}.{name}": f"{folder}.{name}" for folder, names in _FOLDERS.items() for name in names}
    | {f"ragtune.adapters.{name}": f"ragtune.frameworks.{name}" for name in _FRAMEWORKS}
    | {
        "ragtune.adapters": "ragtune.frameworks",
        "ragtune.adapters.page": "ragtune.superprompt.page",
        "ragtune.adapters.page.session": "ragtune.superprompt.page.session",
        "ragtune.canonical.fusing": "ragtune.canonical.fusion",
        "ragtune.canonical.indexing": "ragtune.canonical.retrieval",
        "ragtune.canonical.reranking": "ragtune.canonical.retrieval",
        "ragtune.core.pool.belief": "ragtune.core.pool.valuation",
        "ragtune.data.arrowfile": "ragtune.data.files.records",
        "ragtune.data.records": "ragtune.data.files.records",
        "ragtune.data.run": "ragtune.data.runs.run",
        "ragtune.data.runfile": "ragtune.data.runs.runfile",
        "ragtune.facade.calibration": "ragtune.rerankers.calibration",
        "ragtune.facade.passages": "ragtune.embedders.passages",
        "ragtune.rerankers.llm_listwise": "ragtune.rerankers.llm.listwise",
        "ragtune.rerankers.llm_pointwise": "ragtune.rerankers.llm.pointwise",
        "ragtune.rerankers.llm_setwise": "ragtune.rerankers.llm.setwise",
        "ragtune.superprompt.build": "ragtune.superprompt.pipeline",
        "ragtune.superprompt.options.parts": "ragtune.superprompt.parts",
        "ragtune.superprompt.reranking": "ragtune.superprompt.stages",
        "ragtune.superprompt.reranking.budgeted": "ragtune.superprompt.stages.reranker",
        "ragtune.superprompt.reranking.top": "ragtune.superprompt.stages.reranker",
        "ragtune.superprompt.retrievers": "ragtune.superprompt",
        "ragtune.superprompt.retrievers.superprompt": "ragtune.superprompt.retriever",
    }
)
"""New path of each moved module, by its old path."""


class MovedModules(MetaPathFinder, Loader):
    """Imports a moved module by its old path."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return ModuleType(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        old, new = module.__name__, MOVED[module.__name__]
        warnings.warn(f"{old} has moved to {new}; 1.1.0 removes the old path", DeprecationWarning, stacklevel=2)
        sys.modules[old] = import_module(new)
