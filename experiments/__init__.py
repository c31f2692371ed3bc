"""The research harness: Hydra and MLflow live here and only here."""

from __future__ import annotations

import atexit
import gc
import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType


def hide_data_folders() -> None:
    """Hide data folders of a checkout's root: libraries would take ``datasets/`` for the package of that name."""
    if _finder not in sys.path_hooks:
        sys.path_hooks.insert(0, _finder)
        for entry in [entry for entry in sys.path_importer_cache if _is_checkout(entry)]:
            del sys.path_importer_cache[entry]


class _CheckoutFinder(FileFinder):
    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = super().find_spec(fullname, target)
        return None if spec is None or spec.loader is None else spec


def _finder(entry: str) -> _CheckoutFinder:
    if not _is_checkout(entry):
        raise ImportError(f"{entry} is no checkout", path=entry)
    return _CheckoutFinder(entry, (SourceFileLoader, SOURCE_SUFFIXES))


def _is_checkout(entry: str) -> bool:
    root = Path(entry)
    return (root / "run.py").is_file() and (root / "experiments" / "__init__.py").is_file()


hide_data_folders()

# What this application imports and reads, it keeps to its end: looking for garbage in it more rarely, and not at all at
# exit, makes every command about half a second faster.
gc.set_threshold(1_000_000, 20, 100)
atexit.register(gc.freeze)

if not all(map(find_spec, ("hydra", "mlflow"))):
    from ragtune.core.errors import MissingExtraError

    sys.stderr.write(f"ragtune: {MissingExtraError('an experiment', 'experiments')}\n")
    sys.exit(2)
