"""Writes score tables, in the form that their names end in."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.evaluate.files import whole
from ragtune.core.errors import ConfigError

Pair = tuple[str, str, float]
"""Query id, document id, score."""

COLUMNS = ("query_id", "doc_id", "score")


def check_form(file: Path) -> None:
    """Refuse a name that does not end in a known form.

    Raises:
        ConfigError: naming the allowed endings.
    """
    if file.suffix != ".parquet" and _form(file) not in _TEXTS:
        allowed = ", ".join([".parquet", *_TEXTS])
        raise ConfigError(
            f"--out {str(file)!r}: allowed are names that end in {allowed}; all but Parquet also with .gz"
        )


def write_table(file: Path, pairs: Sequence[Pair], manifest: Mapping[str, Any]) -> None:
    """Write the pairs, sorted, and the manifest beside them. An existing table is replaced once the new one is whole.

    Raises:
        OSError: naming ``file`` if the folder is full or read-only.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f"{file.name}.manifest.json")
    with whole(beside) as new_manifest, whole(file) as new:
        if file.suffix == ".parquet":
            import pandas as pd

            pd.DataFrame(sorted(pairs), columns=[*COLUMNS]).to_parquet(new, index=False, compression="zstd")
        else:
            content = "".join(_TEXTS[_form(file)](sorted(pairs))).encode()
            new.write_bytes(gzip.compress(content, mtime=0) if file.suffix == ".gz" else content)
        new_manifest.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def _form(file: Path) -> str:
    return Path(file.name.removesuffix(".gz")).suffix


def _csv(pairs: list[Pair]) -> Iterator[str]:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([COLUMNS, *pairs])
    yield out.getvalue()


def _jsonl(pairs: list[Pair]) -> Iterator[str]:
    return (json.dumps(dict(zip(COLUMNS, pair, strict=True)), ensure_ascii=False) + "\n" for pair in pairs)


def _run(pairs: list[Pair]) -> Iterator[str]:
    """Best first, equal scores by document id."""
    last, rank = None, 0
    for query_id, doc_id, score in sorted(pairs, key=lambda pair: (pair[0], -pair[2], pair[1])):
        last, rank = query_id, rank + 1 if query_id == last else 1
        yield f"{query_id} Q0 {doc_id} {rank} {score!r} ragtune\n"


_TEXTS: Mapping[str, Callable[[list[Pair]], Iterator[str]]] = {".csv": _csv, ".jsonl": _jsonl, ".run": _run}
