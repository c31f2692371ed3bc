"""JSON out of a model's text: around it are thoughts, prose, code fences, trailing commas, RankGPT's rankings.

The package ``json-repair`` was tried (0.64). It returns a value for every text: ``[2]`` for "I compared [1] and [2].",
``[1]`` for ``[2] > [4] > [1]``, NaN as a number. An answer must be refused where it may mean another thing.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from functools import cached_property
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ragtune.core.plain import well_formed
from ragtune.llm.errors import AnswerKind

T = TypeVar("T", bound=BaseModel)

_NAME = r"[\w:-]{0,20}?(?:think|thought|reason|reflect|scratchpad)[\w-]{0,20}"
_OPENING = re.compile(
    rf"<{_NAME}\s{{0,9}}>|\[THINK\]|◁think▷|<\|channel\|>(?:analysis|commentary)\b[^<]{{0,60}}<\|message\|>",
    re.IGNORECASE,
)
_CLOSING = re.compile(rf"</{_NAME}\s{{0,9}}>|\[/THINK\]|◁/think▷|<\|channel\|>final<\|message\|>", re.IGNORECASE)

_BRACKET = re.compile(r"[{\[]")
_TRAILING_COMMA = re.compile(r'("(?:[^"\\\n]|\\.)*")|(?<![\[{,]),(?=\s*[\]}])')  # or a string, which stays
_CHAIN = re.compile(
    r"\[\d{1,6}\](?:\s*[>=]\s*\[\d{1,6}\])+|^[ \t]*\d{1,6}(?:[ \t]*[>=][ \t]*\d{1,6})+[ \t]*$", re.MULTILINE
)
_NUMBER = re.compile(r"\d+")
_SENTENCE = re.compile(
    r"\W{0,9}(?:(?:so|thus|hence|therefore)\W{1,3})?(?:(?:the|my) )?(?:final )?(?:best|most relevant|answer|grade)"
    r"[a-z ]{0,40}?(?: is\b:?|:| =)\W{0,9}(?:(?:document|passage|number) )?\W{0,9}(\d{1,6})\W{0,9}",
    re.IGNORECASE,
)
"""A text that is one sentence with one number, ``The best is 2``."""
# The limits below bound the time that a megabyte of brackets takes.
_MOST_STARTS = 8192  # twice the brackets that do not begin a JSON value
_DEEP = 64  # such brackets that one counts for where values are nested too deep, which takes longer to find out
_MOST_VALUES = 256  # the last ones


class UnusableJSON(Exception):  # noqa: N818
    """Why a text is not the JSON that was asked for."""

    def __init__(self, kind: AnswerKind, problem: str) -> None:
        super().__init__(problem)
        self.kind: AnswerKind = kind


def parse_json(text: str, schema: type[T]) -> T:
    """The last JSON value that is valid by ``schema``: objects, then ``[2] > [1]``, the longest first, then lists."""
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
    """Yield every JSON value in ``text`` in the order in which :func:`parse_json` tries them."""
    text = text.strip("\ufeff \t\r\n")
    said = without_thoughts(text).strip()
    for whole in dict.fromkeys((text, said)):
        if (read := _Reader(whole).read(0)) is not None and read[1] == len(whole):
            yield read[0]
            if isinstance(read[0], list) and len(read[0]) == 1 and type(read[0][0]) is int:
                yield read[0][0]
            return
    found = list(_Reader(said).values())[::-1]
    yield from (value for value in found if isinstance(value, dict))
    chains = [numbers_in(chain) for chain in _CHAIN.findall(said)][::-1]
    yield from sorted(chains, key=lambda chain: any(set(chain) < set(other) for other in chains))
    yield from (value for value in found if isinstance(value, list))
    if sentence := _SENTENCE.fullmatch(said):
        yield int(sentence[1])


def numbers_in(text: str) -> list[int]:
    """Return the whole numbers of a ranking such as ``[2] > [4] > [1]``, in order."""
    return [int(digits) for digits in _NUMBER.findall(text)]


def without_thoughts(text: str) -> str:
    """Return what follows the last closing tag of thoughts (some templates swallow the opening one), else all."""
    closings = list(_CLOSING.finditer(text))
    openings = list(_OPENING.finditer(text))
    start = closings[-1].end() if closings else 0
    end = next((tag.start() for tag in openings if tag.start() >= start), len(text))
    if closings and openings and len(openings) == len(closings) and not text[start:].strip():
        start, end = 0, openings[0].start()
    return text[start:end]


class _Reader:
    """Reads JSON out of a text, where a comma before a closing bracket counts as a blank."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._decoder = json.JSONDecoder(parse_constant=_refuse)
        self._starts = _MOST_STARTS

    @cached_property
    def _mended(self) -> str:
        return _TRAILING_COMMA.sub(lambda found: found[1] or " ", self._text)

    def values(self) -> deque[Any]:
        found: deque[Any] = deque(maxlen=_MOST_VALUES)
        opening = _BRACKET.search(self._text)
        while opening is not None and self._starts > 0:
            read = self.read(opening.start())
            if read is not None:
                found.append(read[0])
            opening = _BRACKET.search(self._text, opening.start() + 1 if read is None else read[1])
        return found

    def read(self, start: int) -> tuple[Any, int] | None:
        """Return the value that begins at ``start`` and where it ends, or None."""
        for attribute in ("_text", "_mended"):
            try:
                value, end = self._decoder.raw_decode(getattr(self, attribute), start)
                # JSON's escapes can spell lone surrogates, which no later text may have.
                return json.loads(well_formed(json.dumps(value, ensure_ascii=False))), end
            except json.JSONDecodeError:
                self._starts -= 1
            except (ValueError, RecursionError):
                self._starts -= _DEEP
        return None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _kind(error: ValidationError) -> AnswerKind:
    kinds = {entry["type"] for entry in error.errors(include_url=False, include_context=False)}
    if kinds & {"enum", "literal_error"}:
        return "wrong_enum"
    return "wrong_count" if kinds & {"too_short", "too_long"} else "wrong_shape"


def _problem(error: ValidationError) -> str:
    entries = error.errors(include_url=False, include_context=False, include_input=False)[:5]
    return "; ".join(f"{'.'.join(map(str, entry['loc'])) or 'the value'}: {entry['msg']}" for entry in entries)
