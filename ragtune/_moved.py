"""Old paths of modules that have moved: an import of one still works for one release, with a DeprecationWarning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_MOVED_TO = {
    "cli": {"cli": "main", "dispatch": "dispatch"},
    "frameworks": {
        name: name for name in ("haystack", "langchain", "llamaindex", "pyterrier", "sentence_transformers")
    },
    "services": {
        name: name
        for name in (
            *("application", "batching", "limits", "mcp", "metrics", "operations", "payloads"),
            *("rerank", "rerank_payloads", "rest", "security", "shadow"),
        )
    },
}
"""Former modules of ``ragtune.adapters`` that programs may import: their names in a package, by their old names."""

MOVED = (
    {
        f"ragtune.adapters.{old}": f"ragtune.{package}.{new}"
        for package, names in _MOVED_TO.items()
        for old, new in names.items()
    }
    | {
        f"ragtune.estimators.{name}": f"ragtune.estimators.{folder}.{name}"
        for folder, names in {
            "comparing": (
                *("acurank", "blitzrank", "jointrank", "knockout", "plackett_luce"),
                *("setwise_insertion", "sliding", "tdpart", "tourrank"),
            ),
            "graph": ("gar", "ore", "quam", "rgs"),
            "posterior": ("bagel", "similarity", "uncertainty"),
        }.items()
        for name in names
    }
    | {f"ragtune.canonical.{old}": "ragtune.canonical.retrieval" for old in ("fusing", "indexing", "reranking")}
    | {
        "ragtune.core.documents": "ragtune.core.hits",
        "ragtune.core.pool.batch": "ragtune.core.pool.items",
        "ragtune.core.policy.gaussian": "ragtune.core.policy.top_k",
        "ragtune.core.request.limits": "ragtune.core.request.budget",
        "ragtune.core.request.request": "ragtune.core.request.context",
        "ragtune.data.arrowfile": "ragtune.data.files.records",
        "ragtune.data.diskcache": "ragtune.data.caches.diskcache",
        "ragtune.data.filedigest": "ragtune.data.caches.diskcache",
        "ragtune.data.records": "ragtune.data.files.records",
        "ragtune.data.run": "ragtune.data.runs.run",
        "ragtune.data.runfile": "ragtune.data.runs.runfile",
        "ragtune.data.sqlitecache": "ragtune.data.caches.sqlitecache",
        "ragtune.data.textfile": "ragtune.data.files.textfile",
        "ragtune.data.values": "ragtune.data.files.textfile",
        "ragtune.data.topk": "ragtune.data.corpus",
        "ragtune.data.words": "ragtune.data.text.analysis",
        "ragtune.facade.agreement": "ragtune.core.statistics.agreement",
        "ragtune.rerankers.architecture": "ragtune.rerankers.models.architecture",
        "ragtune.rerankers.bi_encoder": "ragtune.rerankers.models.bi_encoder",
        "ragtune.rerankers.cross_encoder": "ragtune.rerankers.models.cross_encoder",
        "ragtune.rerankers.llm_listwise": "ragtune.rerankers.llm.listwise",
        "ragtune.rerankers.llm_pointwise": "ragtune.rerankers.llm.pointwise",
        "ragtune.rerankers.llm_setwise": "ragtune.rerankers.llm.setwise",
    }
)
"""New path of each moved module, by its old path."""


class MovedModules(MetaPathFinder, Loader):
    """Imports a moved module by its old path. It is asked only where no module is found there."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return ModuleType(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        old, new = module.__name__, MOVED[module.__name__]
        warnings.warn(f"{old} has moved to {new}; the old path will go", DeprecationWarning, stacklevel=2)
        sys.modules[old] = import_module(new)


def install() -> None:
    """Let Python find moved modules; calling it again does nothing."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules())
