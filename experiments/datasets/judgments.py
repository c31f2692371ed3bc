"""Judgments in files: BEIR's and TREC's qrels and tables of any form, one file or folder a split."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from experiments.datasets.dataset import Qrels, add_judgment
from ragtune.core.arguments import did_you_mean
from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted
from ragtune.data.files.records import DOC_ID, QUERY_ID, Schema, read_records
from ragtune.data.files.values import id_of

_TEXT = (".tsv", ".txt", ".qrels", ".jsonl", ".csv")
FORMS = (*(f"{form}{gz}" for form in _TEXT for gz in ("", ".gz")), ".parquet")
"""How the names of files may end, in order of preference where a split has several."""

_SCHEMA = Schema(
    {
        "query-id": ("query-id", *QUERY_ID),
        "corpus-id": ("corpus-id", *DOC_ID),
        "score": ("score", "label", "relevance", "grade", "rel"),
        "iteration": (),  # TREC's second column, which has a name in no header
    },
    frozenset({"query-id", "corpus-id", "score"}),
    layouts=(("query-id", "corpus-id", "score"), ("query-id", "iteration", "corpus-id", "score")),
    is_spaced=True,
)
_ITERATIONS = frozenset({"0", "Q0", "1"})
_PIECE = re.compile(r"-\d{5}-of-\d{5}$")
_WHOLE = re.compile(r"[+-]?\d+(\.0*)?")


def judgment_files(folder: Path, qrels: str | None, split: str | None) -> tuple[Path | None, list[Path]]:
    """Return the file of a split's judgments, and those of the other splits.

    Args:
        folder: the collection's folder.
        qrels: a file with the judgments, or a folder of splits; None for ``qrels`` in the collection's.
        split: name of the split; None for no judgments at all.

    Raises:
        DatasetError: if there is no such file or split, naming the existing ones.
    """
    if split is None:
        return None, []
    if qrels is not None and not Path(qrels).is_dir():
        if not Path(qrels).is_file():
            raise DatasetError(f"judgments {qrels!r} do not exist")
        return Path(qrels), []
    splits = _splits(folder / "qrels" if qrels is None else Path(qrels))
    if split not in splits:
        raise DatasetError(
            f"dataset {str(folder)!r} has no split {split!r}: allowed are {', '.join([*sorted(splits), 'null'])} "
            f"(null: agreement with reranking everything is measured instead){did_you_mean(split, [*splits])}"
        )
    chosen = splits.pop(split)
    return chosen, [splits[other] for other in sorted(splits)]


def read_qrels(path: Path) -> Qrels:
    """Read grades by query and document.

    Raises:
        DatasetError: naming the file and the line or row that is wrong.
    """
    qrels: dict[str, dict[str, int]] = {}
    for judgment in _judgments(path):
        add_judgment(qrels, *judgment)
    return qrels


def _judgments(path: Path) -> Iterator[tuple[str, str, int, str]]:
    """Query, document, grade, and the place, as the beginning of a message."""
    for where, (query_id, doc_id, grade, iteration) in read_records(path, _SCHEMA):
        if doc_id in _ITERATIONS and iteration is not None and iteration not in _ITERATIONS:
            raise DatasetError(
                f"{where}: the iteration is {quoted(iteration)} and the document {quoted(doc_id)}: they look swapped: "
                "allowed is 'query_id 0 doc_id grade', or a header that names the columns"
            )
        ids = id_of(query_id, where, "query-id"), id_of(doc_id, where, "corpus-id")
        yield *ids, _grade(grade, where), f"{where}: "


def _splits(folder: Path) -> dict[str, Path]:
    """File or folder by the name of the split; of several forms, the first in :data:`FORMS`."""
    found = sorted(folder.glob("*"))
    splits = {_PIECE.sub("", file.name): file for file in found if file.is_dir()}
    for form in reversed(FORMS):
        for file in found:
            if file.name.endswith(form):
                splits[_PIECE.sub("", file.name.removesuffix(form))] = file
    return splits


def _grade(value: object, where: str) -> int:
    """A whole number, also where a table holds it as a float or text."""
    grade = None if isinstance(value, bool) else _whole(str(value))
    if grade is None:
        raise DatasetError(f"{where}: 'score' is {quoted(value)}: allowed is a whole number")
    return grade


@lru_cache(maxsize=128)
def _whole(text: str) -> int | None:
    """The whole number that a text spells, None if it spells none. A file of judgments has few different texts."""
    try:
        return int(text.partition(".")[0]) if _WHOLE.fullmatch(text) else None
    except ValueError:  # of too many digits
        return None
