"""Whether an answer can be used: whole, not refused, and the JSON that was asked for."""

from __future__ import annotations

from dataclasses import fields

from ragtune.llm.errors import AnswerError
from ragtune.llm.jsontext import UnusableJSON, parse_json
from ragtune.llm.limits import AnswerLimit
from ragtune.llm.types import ChatResult, JsonResult, T

_SHOWN_CHARS = 120
_CUT_OFF = ("length", "max_tokens", "max_output_tokens", "model_length")  # as servers call it


def require_usable(result: ChatResult, limit: AnswerLimit) -> ChatResult:
    """Return ``result``, if it is a whole answer.

    Raises:
        AnswerError: if it is a refusal, cut off, or empty.
    """
    if result.refusal or result.finish_reason == "content_filter":
        raise AnswerError(f"{result.model} refused: {_start(result.refusal or 'content filter')}", "refusal", result)
    if result.finish_reason.lower() in _CUT_OFF:
        raise AnswerError(
            f"{result.model} was cut off after {result.completion_tokens} tokens: {limit.advice}", "truncated", result
        )
    if not result.text.strip():
        why = f" after {result.completion_tokens} tokens; if these were thoughts, {limit.advice}"
        raise AnswerError(
            f"{result.model} gave an empty answer{why if result.completion_tokens else ''}", "empty", result
        )
    return result


def require_json(result: ChatResult, schema: type[T]) -> JsonResult[T]:
    """Return ``result`` with its JSON as a ``schema``.

    Raises:
        AnswerError: if it holds no such JSON.
    """
    given = {entry.name: getattr(result, entry.name) for entry in fields(ChatResult)}
    try:
        return JsonResult(**given, parsed=parse_json(result.text, schema))
    except UnusableJSON as flaw:
        raise AnswerError(f"{result.model} answered {_start(result.text)}: {flaw}", flaw.kind, result) from None


def _start(text: str) -> str:
    plain = " ".join(text.split())
    return repr(plain[:_SHOWN_CHARS] + ("..." if len(plain) > _SHOWN_CHARS else ""))
