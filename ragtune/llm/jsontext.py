"""JSON out of what a model says around it: thoughts, prose, code fences, trailing commas, RankGPT's rankings."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ragtune.llm.errors import AnswerKind
from ragtune.llm.thoughts import without_thoughts
from ragtune.llm.types import well_formed_json

T = TypeVar("T", bound=BaseModel)

_BRACKET = re.compile(r"[{\[]")
_TRAILING_COMMA = re.compile(r",\s*(?=[\]}])")
_CHAIN = re.compile(
    r"\[\d{1,6}\](?:\s*[>=]\s*\[\d{1,6}\])+|^[ \t]*\d{1,6}(?:[ \t]*[>=][ \t]*\d{1,6})+[ \t]*$", re.MULTILINE
)
_NUMBER = re.compile(r"\d+")
_MOST_STARTS = 4096  # places that look like JSON and are none: a megabyte of brackets must not take for ever
_DEEP = 64  # such places that one counts for which is nested too deep, since it takes that much longer
_MOST_COMMAS = 256
_MOST_VALUES = 256  # the last ones
_ENUM_ERRORS = ("enum", "literal_error")
_COUNT_ERRORS = ("too_short", "too_long")


class UnusableJSON(Exception):  # noqa: N818
    """Why a text is not what was asked for.

    Attributes:
        kind: ``malformed_json``, ``wrong_enum``, ``wrong_count`` or ``wrong_shape``.
        problem: what is wrong, in words that a repair can be asked for with.
    """

    def __init__(self, kind: AnswerKind, problem: str) -> None:
        super().__init__(problem)
        self.kind: AnswerKind = kind
        self.problem = problem


def parse_json(text: str, schema: type[T]) -> T:
    """Return the last JSON value in ``text`` that is valid by ``schema``.

    Thoughts do not count (:func:`ragtune.llm.thoughts.without_thoughts`): a draft in them is no answer. A text that is
    JSON as a whole is taken as it stands. Objects come before rankings of the form ``[2] > [1]``, and these before
    lists, since prose around an answer often cites documents as ``[1]``. A ranking of that form comes after those that
    hold its documents and more: an explanation behind an answer compares a few documents again.

    Raises:
        UnusableJSON: if no value is valid; the error describes the value that was tried first.
    """
    first: ValidationError | None = None
    for value in json_values(text):
        try:
            return schema.model_validate(value)
        except ValidationError as error:
            first = first or error
        except RecursionError:
            continue
    if first is None:
        raise UnusableJSON("malformed_json", "there is no JSON value in it, thoughts aside")
    raise UnusableJSON(_kind(first), _problem(first))


def json_values(text: str) -> Iterator[Any]:
    """Every JSON value in ``text``, in the order in which :func:`parse_json` tries them."""
    text = text.strip("\ufeff \t\r\n")
    whole = _Reader(text).read(0)
    if whole is not None and whole[1] == len(text):
        yield whole[0]
        return
    said = without_thoughts(text).strip()
    if said != text and (whole := _Reader(said).read(0)) is not None and whole[1] == len(said):
        yield whole[0]
        return
    found = list(_Reader(said).values())[::-1]
    yield from (value for value in found if isinstance(value, dict))
    chains = [numbers_in(chain) for chain in _CHAIN.findall(said)][::-1]
    yield from sorted(chains, key=lambda chain: any(set(chain) < set(other) for other in chains))
    yield from (value for value in found if isinstance(value, list))


def numbers_in(text: str) -> list[int]:
    """The whole numbers of a ranking such as ``[2] > [4] > [1]``, in order."""
    return [int(digits) for digits in _NUMBER.findall(text)]


class _Reader:
    """Reads JSON out of a text; a comma before a closing bracket is taken for a blank."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._decoder = json.JSONDecoder(parse_constant=_refuse)
        self._starts, self._commas = _MOST_STARTS, _MOST_COMMAS

    def values(self) -> deque[Any]:
        """Objects and lists that stand in no other one, in order."""
        found: deque[Any] = deque(maxlen=_MOST_VALUES)
        opening = _BRACKET.search(self._text)
        while opening is not None and self._starts > 0:
            read = self.read(opening.start())
            if read is not None:
                found.append(read[0])
            opening = _BRACKET.search(self._text, opening.start() + 1 if read is None else read[1])
        return found

    def read(self, start: int) -> tuple[Any, int] | None:
        """The value that begins at ``start`` and where it ends; None where none does."""
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, start)
                return well_formed_json(value), end
            except json.JSONDecodeError as error:
                if not self._blanked(start, error.pos):
                    self._starts -= 1
                    return None
            except (ValueError, RecursionError):
                self._starts -= _DEEP
                return None

    def _blanked(self, start: int, position: int) -> bool:
        """Whether the fault at ``position`` was a trailing comma, which is a blank now."""
        is_comma = self._text[position : position + 1] == ","
        comma = position if is_comma else self._text.rfind(",", start, position)
        found = _TRAILING_COMMA.match(self._text, comma) if comma > start and self._commas else None
        if found is None or found.end() < position or self._text[start:comma].rstrip()[-1:] in ("[", "{", ","):
            return False
        self._commas -= 1
        self._text = f"{self._text[:comma]} {self._text[comma + 1 :]}"
        return True


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _kind(error: ValidationError) -> AnswerKind:
    types = [entry["type"] for entry in error.errors(include_url=False, include_context=False)]
    if any(kind in _ENUM_ERRORS for kind in types):
        return "wrong_enum"
    return "wrong_count" if any(kind in _COUNT_ERRORS for kind in types) else "wrong_shape"


def _problem(error: ValidationError) -> str:
    entries = error.errors(include_url=False, include_context=False, include_input=False)[:5]
    return "; ".join(f"{'.'.join(map(str, entry['loc'])) or 'the value'}: {entry['msg']}" for entry in entries)
