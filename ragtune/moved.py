"""Old import paths of public modules, which keep working for one release with a DeprecationWarning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "ragtune.data.arrowfile": "ragtune.data.files.arrowfile",
    "ragtune.data.diskcache": "ragtune.data.caches.diskcache",
    "ragtune.data.filedigest": "ragtune.data.files.filedigest",
    "ragtune.data.records": "ragtune.data.files.records",
    "ragtune.data.run": "ragtune.data.runs.run",
    "ragtune.data.runfile": "ragtune.data.runs.runfile",
    "ragtune.data.searchfile": "ragtune.data.runs.searchfile",
    "ragtune.data.sqlitecache": "ragtune.data.caches.sqlitecache",
    "ragtune.data.storedcorpus": "ragtune.data.stored.storedcorpus",
    "ragtune.data.textfile": "ragtune.data.files.textfile",
    "ragtune.data.values": "ragtune.data.files.values",
    "ragtune.data.words": "ragtune.data.text.words",
}
"""New module by the old name."""


class MovedModules(MetaPathFinder):
    """Finds a module of :data:`MOVED` under its old name. Python asks it after its own finders, which fail."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return what loads the moved module, and warn; None for any other name."""
        new = MOVED.get(fullname)
        if new is None:
            return None
        warnings.warn(
            f"{fullname} has moved to {new}: the old name goes with the next release", DeprecationWarning, stacklevel=2
        )
        return ModuleSpec(fullname, _Alias(new))


class _Alias(Loader):
    """Gives a module a second name."""

    def __init__(self, new: str) -> None:
        self._new = new

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self._new)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # which the import system has replaced by the alias's


def install() -> None:
    """Let the old names be found."""
    sys.meta_path.append(MovedModules())
