"""Writes score tables, in the form that their names end in."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from experiments.config.whole import naming
from ragtune.core.errors import ConfigError

Pair = tuple[str, str, float]
"""Query id, document id, score."""

COLUMNS = ("query_id", "doc_id", "score")


def check_form(file: Path) -> None:
    """Refuse a name that says no form.

    Raises:
        ConfigError: naming the allowed endings.
    """
    _form(file)


def write_table(file: Path, pairs: Sequence[Pair], manifest: Mapping[str, Any]) -> None:
    """Write the pairs, sorted, and the manifest beside them. An existing table is replaced once the new one is whole.

    Raises:
        OSError: naming ``file`` if the folder is full or read-only.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f"{file.name}.manifest.json")
    new, new_manifest = (path.with_name(f".new-{path.name}") for path in (file, beside))
    try:
        with naming(file):
            _form(file)(new, sorted(pairs))
            new_manifest.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
            new.replace(file)
            new_manifest.replace(beside)
    finally:
        new.unlink(missing_ok=True)
        new_manifest.unlink(missing_ok=True)


def _form(file: Path) -> Callable[[Path, list[Pair]], None]:
    if file.name.endswith(".parquet"):
        return _write_parquet
    for ending, lines in _TEXTS.items():
        if file.name.endswith((ending, f"{ending}.gz")):
            return lambda new, pairs: _write_text(new, lines(pairs))
    allowed = ", ".join([".parquet", *_TEXTS])
    raise ConfigError(f"--out {str(file)!r}: allowed are names that end in {allowed}; all but Parquet also with .gz")


def _write_parquet(file: Path, pairs: list[Pair]) -> None:
    import pandas as pd

    pd.DataFrame(pairs, columns=[*COLUMNS]).to_parquet(file, index=False, compression="zstd")


def _write_text(file: Path, lines: Iterator[str]) -> None:
    content = "".join(lines).encode()
    file.write_bytes(gzip.compress(content, mtime=0) if file.name.endswith(".gz") else content)


def _csv(pairs: list[Pair]) -> Iterator[str]:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([COLUMNS, *pairs])
    yield out.getvalue()


def _jsonl(pairs: list[Pair]) -> Iterator[str]:
    return (json.dumps(dict(zip(COLUMNS, pair, strict=True)), ensure_ascii=False) + "\n" for pair in pairs)


def _run(pairs: list[Pair]) -> Iterator[str]:
    """Best first, equal scores by document id."""
    for query_id, group in groupby(pairs, key=lambda pair: pair[0]):
        best_first = sorted(group, key=lambda pair: (-pair[2], pair[1]))
        for rank, (_, doc_id, score) in enumerate(best_first, start=1):
            yield f"{query_id} Q0 {doc_id} {rank} {score!r} ragtune\n"


_TEXTS: Mapping[str, Callable[[list[Pair]], Iterator[str]]] = {".csv": _csv, ".jsonl": _jsonl, ".run": _run}
