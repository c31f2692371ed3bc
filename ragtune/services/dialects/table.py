"""All dialects, and which of them a request is in."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic_core import from_json

from ragtune.services.dialects.cohere import JINA, V1, V2
from ragtune.services.dialects.dialect import Dialect
from ragtune.services.dialects.others import INFINITY, SCORE, TEI, VLLM, VOYAGE
from ragtune.services.errors import Problem, problem_of

DIALECTS = (V1, V2, JINA, TEI, VOYAGE, INFINITY, VLLM, SCORE)


BY_PATH: dict[str, list[Dialect]] = {path: [dialect] for dialect in DIALECTS for path in dialect.paths}
"""The dialects at each path of the rerank API; requests that do not tell are in the first."""

for _dialect in DIALECTS:
    _paths = [f"/{_dialect.server}{path}" for path in _dialect.paths + _dialect.shared]
    for _path in (*(_dialect.shared if _dialect.marks else ()), *_paths):
        BY_PATH.setdefault(_path, []).append(_dialect)


def dialect_of(path: str, data: bytes) -> Dialect:
    """The dialect of a request at one of the paths."""
    first, *others = BY_PATH[path]
    return next((dialect for dialect in others if has_field(data, dialect.marks)), first)


def has_field(data: bytes, names: Iterable[str]) -> bool:
    """Whether the body of a request is an object with one of these fields."""
    try:
        given = from_json(data)
    except ValueError:
        return False
    return isinstance(given, dict) and any(name in given for name in names)


def problem_at(path: str, error: Exception, dialect: Dialect | None = None) -> Problem:
    """What a client of that path reads of an error; in the first dialect there unless its own is known."""
    found = problem_of(error)
    dialect = dialect or next(iter(BY_PATH.get(path, ())), None)
    return found if dialect is None else dialect.problem(found)
