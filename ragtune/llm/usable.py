"""Which answers can be used, and the one repair of JSON that cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from itertools import islice

from ragtune.core.tokens import count_tokens, token_spans
from ragtune.llm.calls import ChatCall
from ragtune.llm.errors import AnswerError, AnswerKind, ServiceError
from ragtune.llm.jsontext import UnusableJSON, parse_json
from ragtune.llm.limits import AnswerLimit
from ragtune.llm.thoughts import without_thoughts
from ragtune.llm.types import ChatResult, JsonResult, Message, T

Ask = Callable[[ChatCall], tuple[ChatResult, str]]

_SHOWN_CHARS = 120
_MAX_PROBLEM_TOKENS = 64  # a schema of many values, or names that the model made up, would be told of without end
_MAX_QUOTED_TOKENS = 256
_MAX_QUOTED_CHARS = 1024  # the rule counts no blanks, and six characters of any script as one token
_CUT_OFF = ("length", "max_tokens", "max_output_tokens", "model_length")  # as servers call it
_CUT = "\u2026"
_WISH = "That cannot be used: {problem}. Answer again, with the corrected JSON only and no other word."

MAX_WISH_TOKENS = count_tokens(_WISH.format(problem="")) + _MAX_PROBLEM_TOKENS
"""The most that a repair's request adds to the conversation and what it quotes of the bad answer."""


def most_quoted(max_tokens: int) -> int:
    """The most tokens of a bad answer that a repair's request quotes, where an answer may have ``max_tokens``."""
    return min(max_tokens, _MAX_QUOTED_TOKENS)


def require_usable(result: ChatResult, refusal: str, limit: AnswerLimit) -> ChatResult:
    """``result``, if it is a whole answer.

    Raises:
        AnswerError: if it is a refusal, cut off, or empty.
    """
    if refusal or result.finish_reason == "content_filter":
        raise AnswerError(f"{result.model} refused: {_start(refusal or 'content filter')}", "refusal", result)
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


def structured(call: ChatCall, schema: type[T], ask: Ask, repair: bool) -> JsonResult[T]:
    """The answer as a ``schema``, repaired at most once.

    A server that writes more than it was allowed to is asked for no repair: nothing was reserved for that.

    Raises:
        AnswerError: see :meth:`ragtune.llm.client.LLMClient.chat_json`.
    """
    first = require_usable(*ask(call), call.limit)
    try:
        return _parsed(first, first.text, schema)
    except UnusableJSON as flaw:
        problem, kind = flaw.problem, flaw.kind
    if not repair or first.completion_tokens > call.limit.total:
        raise _unusable(first, kind, problem)
    second = _repair(call, ask, first, kind, problem)
    try:
        return _parsed(second, second.text, schema)
    except UnusableJSON as flaw:
        problem, kind = flaw.problem, flaw.kind
    raise _unusable(second, kind, problem)


def _repair(call: ChatCall, ask: Ask, first: ChatResult, kind: AnswerKind, problem: str) -> ChatResult:
    """The second answer, with the bill of both.

    Raises:
        AnswerError: as :func:`require_usable`; where the service fails it is the first answer's error.
    """
    wish = _WISH.format(problem=_start_of_problem(problem))
    again = (
        *call.messages,
        Message(
            "assistant", _quoted(without_thoughts(first.text).strip() or first.text, most_quoted(call.limit.answer))
        ),
        Message("user", wish),
    )
    failed: ServiceError | None = None
    try:
        second, refusal = ask(replace(call, messages=again))
    except ServiceError as error:
        failed = error
    if failed is not None:
        bill = replace(
            first,
            calls=first.calls + failed.cost.calls,
            attempts=first.attempts + failed.attempts,
            wasted_ms=first.wasted_ms + failed.wasted_ms,
            prompt_tokens=first.prompt_tokens + failed.prompt_tokens,
            completion_tokens=first.completion_tokens + failed.completion_tokens,
            usd=first.usd + failed.usd,
            paid=first.paid + failed.paid,
        )
        raise _unusable(bill, kind, f"{problem}; and the repair failed: {failed}")
    return require_usable(_together(first, second), refusal, call.limit)


def _together(first: ChatResult, second: ChatResult) -> ChatResult:
    return replace(
        second,
        prompt_tokens=first.prompt_tokens + second.prompt_tokens,
        completion_tokens=first.completion_tokens + second.completion_tokens,
        usd=first.usd + second.usd,
        latency_ms=first.latency_ms + second.latency_ms,
        cached=first.cached and second.cached,
        attempts=first.attempts + second.attempts,
        wasted_ms=first.wasted_ms + second.wasted_ms,
        calls=first.calls + second.calls,
        is_estimated=first.is_estimated or second.is_estimated,
        paid=first.paid + second.paid,
    )


def _parsed(result: ChatResult, text: str, schema: type[T]) -> JsonResult[T]:
    given = {entry.name: getattr(result, entry.name) for entry in fields(ChatResult)}
    return JsonResult(**given, parsed=parse_json(text, schema))


def _unusable(result: ChatResult, kind: AnswerKind, problem: str) -> AnswerError:
    return AnswerError(f"{result.model} answered {_start(result.text)}: {problem}", kind, result)


def _start(text: str) -> str:
    plain = " ".join(text.split())
    return repr(plain[:_SHOWN_CHARS] + ("..." if len(plain) > _SHOWN_CHARS else ""))


def _start_of_problem(problem: str) -> str:
    return _first_tokens(problem, _MAX_PROBLEM_TOKENS)


def _quoted(text: str, tokens: int) -> str:
    """The start of it, with a sign of one token where it goes on."""
    start = _first_tokens(text[:_MAX_QUOTED_CHARS], tokens)
    return text if start == text else _first_tokens(start, tokens - 1) + _CUT


def _first_tokens(text: str, count: int) -> str:
    if count == 0:
        return ""
    last = next(islice(token_spans(text), count - 1, None), None)
    return text if last is None else text[: last[1]]
