"""Finds the lines of a prompt that are material to work on (a log, YAML, an e-mail), not headers (rule E5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ragtune.superprompt.reading.schema import Mapped

MANNER = ("audience", "tone", "depth", "confidence", "format", "purpose", "constraints")
"""Keys that describe the answer; logs and e-mails rarely have fields of these names."""

_KEY_LINE = re.compile(r" {0,3}(?:- )?([\w\"'][^:\uff1a]*)(?::(?:[ \t]+|$)|\uff1a[ \t]*)(.*)")
_STRONG = re.compile(r" {0,3}(?:#{1,6}[ \t]|\[[^\[\]]+\]|\*\*|__)")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]")
_FIELD = re.compile(r" {0,3}\w+:[ \t]+(?=\S)")

_VERBS = (
    "add analyse analyze answer calculate change check clarify classify clean compare complete compute convert "
    "correct count create debug define describe design draft edit evaluate explain extract find fix format(?!:) "
    "generate give help identify improve interpret list make name optimise optimize outline paraphrase parse plan "
    "polish proofread propose read recommend refactor rephrase reply respond review revise rewrite shorten show "
    "simplify solve sort suggest summarise summarize tell translate turn validate write analysiere beantworte "
    "beschreibe erkläre erstelle fasse finde formuliere gib hilf korrigiere liste nenne prüfe schreib schreibe "
    "übersetze verbessere zeige analyse compare corrige donne écris explique fais liste rédige réponds résume traduis "
)
_QUESTIONS = (
    "am are can could did do does has have how is should was were what when where which who whom whose why will would "
    "kann können ist sind soll sollte warum wann was welche welcher welches wer wie wieso wo "
    "combien comment où peux pourquoi pouvez quand que quel quelle quels quelles qui quoi"
)
_WORKS_ON = (
    "correct edit improve paraphrase polish proofread rephrase review revise rewrite shorten simplify summarise "
    "summarize translate fasse korrigiere kürze übersetze verbessere corrige résume traduis"
)
_ASKS = re.compile(
    r"\W*(?:(?:please|kindly|bitte|merci de|now|then|ok|okay|hi|hello|hey)\b\W*)*"
    rf"(?:{'|'.join((_VERBS + _QUESTIONS).split())})\b"
    r"|.*\?\s*$|.*\b(?:please|bitte)\b|\W*i\s+(?:need|want|would\s+like|am\s+looking)\b|\W*i'd\s+like\b",
    re.IGNORECASE,
)
_SHOWING = r"this|these|(?:the\s+)?following|below|here|diese[nrsm]?|folgende[nrsm]?|ce|cet|cette|ces|suivante?s?|voici"
_POINTING = re.compile(rf"\b(?:{_SHOWING}|that|my|our|the|meine?[nrsm]?)\b.*[:\uff1a]\s*$", re.IGNORECASE)
_HERE = re.compile(r"(?i)\W*(?:here|hier)\b(?!.*\b(?:request|prompt|task|question|aufgabe|frage)\b)")
_ASKED_OF = re.compile(rf"\b(?:{_SHOWING})\b.*[?:\uff1a]\s*$", re.IGNORECASE)
_COMPLETE = re.compile(
    rf"\W*(?:(?:please|kindly|bitte|(?:can|could|would|will)\s+you)\b\W*)*(?:{'|'.join(_WORKS_ON.split())})\s+"
    rf"(?:{_SHOWING}|my|our|the|meine?[nrsm]?)\b[^.:?!\uff1a]*[.:?!\uff1a]?\s*$",
    re.IGNORECASE,
)
"""A complete request to work on a text, and nothing else: "Proofread this job ad." """

_ROLE = re.compile(
    r"(?:you\s+are|act\s+as|du\s+bist|sie\s+sind|tu\s+es|vous\s+êtes)\s+(?:an?|the|ein(?:e|en)?|une?|le|la)\s"
    r".*?(?:[.!](?=\s|\Z)|(?=\n\s*\n)|\Z)"
    r"(?:\s+(?:you\s+(?:have|know|work)|du\s+(?:hast|kennst|arbeitest))\b[^.!?\n]*[.!](?=\s))*",
    re.IGNORECASE | re.DOTALL,
)
_SETTINGS = re.compile(r" {0,3}\[{1,2}[^\[\]]+\]{1,2}\s*$")
_SETTING = re.compile(r"\s*(?:[#;]|[\w.\"' -]+=)")


def leading_role(text: str) -> str:
    """Return the sentences at the beginning that describe the model ("You are a tax adviser."); may be empty."""
    match = _ROLE.match(text)
    return match[0] if match else ""


def asks(text: str) -> bool:
    """Return whether a line of the text is a question, a request or an imperative."""
    return any(_ASKS.match(line) for line in text.split("\n") if line.strip())


def request_in(text: str) -> str:
    """Return the text without its material: after a line that announces material, only paragraphs that ask stay."""
    kept: list[str] = []
    in_content = follows_gap = False
    for line in text.split("\n"):
        if in_content and follows_gap and asks(line):
            in_content = False
        if not in_content:
            kept.append(line)
        follows_gap = not line.strip()
        in_content = in_content or _announces(line, None)
    return "\n".join(kept)


def content_lines(
    lines: Sequence[str], in_code: Sequence[bool], resolve: Callable[[str], Mapped], max_words: int
) -> frozenset[int]:
    """Return the numbers of the lines that are material, whatever they look like; docs/superprompt.md has the rules."""

    def meant(line: str) -> Mapped | None:
        match = _KEY_LINE.match(line)
        return resolve(match[1].strip()) if match and len(match[1].split()) <= max_words else None

    keys = [None if code else meant(line) for line, code in zip(lines, in_code, strict=True)]
    found: set[int] = set()
    number = 0
    while number < len(lines):
        end = number + 1
        if not in_code[number] and (_announces(lines[number], keys[number]) or _hands_over(lines, keys, number)):
            is_task_said = bool(_COMPLETE.match(lines[number]))
            end = _end_of_content(lines, keys, number + 1, _title(lines[number + 1 :], resolve), is_task_said)
            found.update(range(number + 1, end))
        number = end
    return frozenset(found | _foreign_runs(lines, keys, found) | _settings(lines, resolve))


def _announces(line: str, key: Mapped | None) -> bool:
    said = _FIELD.sub("", line, count=1) if key is not None and key.key is not None else line
    return bool(_POINTING.search(said)) and (asks(said) or bool(_HERE.match(said)))


def _hands_over(lines: Sequence[str], keys: Sequence[Mapped | None], number: int) -> bool:
    """Whether the line is a complete request to work on a text, and prose follows a blank line."""
    if not _COMPLETE.match(lines[number]) or number + 1 == len(lines) or lines[number + 1].strip():
        return False
    first = next((n for n in range(number + 1, len(lines)) if lines[n].strip()), None)
    return first is not None and not _is_field(lines[first], keys[first]) and not _STRONG.match(lines[first])


def _settings(lines: Sequence[str], resolve: Callable[[str], Mapped]) -> set[int]:
    """Sections of settings: a name in brackets over ``key = value`` lines, up to a blank line."""
    found: set[int] = set()
    for begin, line in enumerate(lines):
        name = line.strip().strip("[]")
        if not _SETTINGS.match(line) or (resolve(name).step == "exact" and name[:1].isupper()):
            continue
        end = next((n for n in range(begin + 1, len(lines)) if not _SETTING.match(lines[n])), len(lines))
        if end > begin + 1 and (end == len(lines) or not lines[end].strip() or _SETTINGS.match(lines[end])):
            found.update(range(begin, end))
    return found


def _end_of_content(
    lines: Sequence[str], keys: Sequence[Mapped | None], begin: int, title: int, is_task_said: bool
) -> int:
    for number in range(begin + 1, len(lines)):
        is_titled = 0 < title < _level(lines[number]) or (title and not any(map(str.strip, lines[begin:number])))
        if lines[number - 1].strip() or is_titled:
            continue
        key = keys[number]
        own = key is not None and key.step in ("exact", "bilingual") and lines[number].lstrip()[:1].isupper()
        if own and is_task_said and key is not None and key.key == "task":
            continue
        if own or _STRONG.match(lines[number]):
            return number
    return len(lines)


def _title(lines: Sequence[str], resolve: Callable[[str], Mapped]) -> int:
    """Level of the heading at the beginning; 0 without one, or for a heading of a prompt."""
    first = next((line.strip() for line in lines if line.strip()), "")
    return _level(first) if resolve(first.lstrip("#").strip()).key is None else 0


def _level(line: str) -> int:
    match = _HEADING.match(line)
    return len(match[1]) if match else 0


def _foreign_runs(lines: Sequence[str], keys: Sequence[Mapped | None], taken: set[int]) -> set[int]:
    """Runs of key lines after a beginning that asks or shows, whose keys are mostly not a prompt's."""
    first = next((n for n, key in enumerate(keys) if _is_field(lines[n], key) or _STRONG.match(lines[n])), len(lines))
    shows = "\n".join(lines[:first]).rstrip().endswith((":", "\uff1a"))
    rest = [line for line, key in zip(lines[first:], keys[first:], strict=True) if key is None]
    if first in taken or not (asks("\n".join(lines[:first])) or (shows and asks("\n".join(rest)))):
        return set()
    found: set[int] = set()
    begin = first
    while begin < len(lines):
        end = begin
        while end < len(lines) and keys[end] is not None:
            end += 1
        run = [(key, lines[n]) for n in range(begin, end) if (key := keys[n]) is not None]
        ours = sum(_is_ours(key, line) for key, line in run)
        known = sum(key.key is not None for key, _ in run)
        shown = bool(run and begin and run[0][0].key is None and _ASKED_OF.search(lines[begin - 1]))
        if run and known and (ours == 0 or 2 * ours < len(run) or shown):
            found.update(range(begin, end))
        begin = end + 1
    return found


def _is_field(line: str, key: Mapped | None) -> bool:
    """Whether a key line has a value: "My log:" is the end of a sentence."""
    return key is not None and (key.key is not None or not line.rstrip().endswith((":", "\uff1a")))


def _is_ours(key: Mapped, line: str) -> bool:
    if key.key in MANNER:
        return True
    return key.step in ("exact", "bilingual", "typo") and line.lstrip()[:1].isupper()
