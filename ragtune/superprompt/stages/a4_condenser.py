"""A4: condenses the selection and cuts it to the budget (rule E10)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

from pydantic import Field, model_validator

from ragtune.canonical import Candidate, CompressPolicy, compress
from ragtune.canonical.splitters.units import sentence_starts
from ragtune.core.request.context import CostMeter
from ragtune.core.tokens import count_tokens
from ragtune.superprompt.agents.agent import item_text
from ragtune.superprompt.agents.writer import Writer, WriterConfig, into_sections, sectioned
from ragtune.superprompt.options import PipelineConfig
from ragtune.superprompt.reading.text import code_marks, one_line
from ragtune.superprompt.rendering import prompt_md, subject_words
from ragtune.superprompt.stages.a3_nli_gate import WEAK_SUPPORT
from ragtune.superprompt.stages.base import AgentStage
from ragtune.superprompt.super_prompt import ContextChunk, SuperPrompt

NO_CONTEXT = "No context was selected: nothing in conversation or memory may be relied on for this prompt."

LITTLE = "The documents say little about this."

_BREAK = "\n\n"
_BETWEEN = r"\s*(?:[,;&\u2013-]|and|und)\s*"
_CITATION = re.compile(
    rf"`[^`\n]*`|\\?[\[\u3010]\s*(?:(?:source|attachment)\s+)?(\d+(?:{_BETWEEN}\d+)*)\s*\\?[\]\u3011](?!\()",
    re.IGNORECASE,
)
"""Code, which cites nothing, or a citation in any form that models write. Links ``[n](url)`` and footnotes ``[^n]`` are
none."""

_DEFINITION = re.compile(r"\s{0,3}(?:[-*+]\s+)?\[\d+\]:\s")
_NUMBER = re.compile(r"\d+")
_FENCE = re.compile(r"\s*(?:`{3,}|~{3,})(?P<info>[^`]*)$")
_NO_PROSE = re.compile(r" {0,3}(?:#{1,6}(?:\s|$)|\[[^\]]+\]:\s|<!--)|\W*$|\s*(?:\.\.\s|:[\w -]+:(?:\s|$))")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+|~{3,}|\^{3,}|\"{3,}|\+{3,})\s*$")
_LITERAL = re.compile(r"\s*\.\.\s+(?:code(?:-block)?|sourcecode|parsed-literal|console|regendoc)\b|.*::\s*$")
"""A line of reStructuredText before an indented block of code."""
_QUOTE = re.compile(r"^\s*(?:>\s?)+")
_ITEM = re.compile(r"\s*(?:[-*+\u2022]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
_ROW = re.compile(r"\s*\|(.*)\|\s*$")
_LINK = re.compile(r"!?\[[^\]]*\]\([^)]*\)|:[\w:]+:`[^`]*`|`[^`]*`_+|<?https?://\S+")
_LETTERS = re.compile(r"[^\W\d_]{2,}")
_ENDS = re.compile(r"[.!?\u3002\uff01\uff1f][\"'\u201d)*_`]*$")
_VERB = re.compile(
    r"\b(?:is|are|was|were|be|been|has|have|had|do|does|did|can|could|may|might|must|shall|should|will|would|needs?|uses?|"
    r"sets?|makes?|runs?|gives?|shows?|ist|sind|war|hat|haben|kann|können|muss|müssen|wird|werden|soll|sollte|est|sont|peut)\b",
    re.IGNORECASE,
)
_CODE_LIKE = re.compile(
    r"(?:[$>@#]|from \w+ import|import \w|def |class |\w[\w.]*\s*=\s*\S|</?\w)|.*(?:[{};]|\w\([^)]*\):?)$",
    re.IGNORECASE,
)
_LEAST_WORDS, _LEAST_CELLS, _LONGEST = 4, 3, 40
_TAGS = re.compile(r"(?:\s*<[^>]*>)+\s*")
_CELL = " \u00a6 "
_RULE = re.compile(r"[\s|:-]*-[\s|:-]*$")


class CondenserConfig(WriterConfig):
    """The writer of S_CTX_MD, and the limits of the rule without a language model."""

    max_attachment_tokens: int = Field(ge=1)
    max_quoted: int = Field(ge=1)
    cues: Mapping[str, tuple[str, ...]]

    @model_validator(mode="after")
    def _cues_of_sections(self) -> Self:
        if strangers := [name for name in self.cues if name not in self.sections]:
            raise ValueError(f"cues[{strangers[0]!r}]: allowed are {', '.join(self.sections)}")
        return self


@dataclass(frozen=True)
class Condensed:
    """S_CTX_MD, the final selection with the n-th as source ``[n]``, the agent's scores, and rejected lines."""

    text: str
    ids: list[str]
    scores: dict[str, float] = field(default_factory=dict)
    rejected: list[str] = field(default_factory=list)


class A4Condenser(AgentStage[CondenserConfig, Writer, Condensed]):
    """Writes S_CTX_MD from the selection, trimmed to N3 ids and ``max_attachment_tokens``; ``[n]`` is attachment n."""

    name: ClassVar[str] = "A4_Condenser"

    def has_question(self, sp: SuperPrompt) -> bool:
        return bool(sp.final_selection_ids)

    def ask(self, agent: Writer, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> Condensed:
        parts = {"prompt": prompt_md(sp, config.prompt_schema)}
        items = [item_text(chunk) for chunk in sp.chunks(sp.final_selection_ids)]
        shown = sp.final_selection_ids[: agent.fitting(parts, items)]
        written, by_place = agent.write(parts, items[: len(shown)], meter)
        scores = {shown[place]: score for place, score in by_place.items()}
        kept = self._trim(sp, shown, scores, config)
        if not kept:
            return Condensed(NO_CONTEXT, [], scores)
        if kept != shown:
            written, _ = agent.write(parts, [item_text(chunk) for chunk in sp.chunks(kept)], meter)
        checked, rejected = without_false_citations(written, len(kept))
        lines = into_sections(checked, self.config.sections)
        lines[self.config.sections[-1]] += _little(sp)
        return Condensed(sectioned(lines, self.config.max_text_tokens), kept, scores, rejected)

    def default(self, sp: SuperPrompt, config: PipelineConfig) -> Condensed:
        kept = self._trim(sp, sp.final_selection_ids, {}, config)
        if not kept:
            return Condensed(NO_CONTEXT, [])
        policy = CompressPolicy(method="windows", window=0, max_tokens=self.config.max_text_tokens)
        subject = " ".join(word for word, _ in subject_words(sp.body, config.request_words))
        quoted = sp.chunks(kept[: self.config.max_quoted])
        lines = extract(subject, quoted, self.config.sections, self.config.cues, policy)
        lines[self.config.sections[-1]] += _little(sp)
        return Condensed(sectioned(lines, self.config.max_text_tokens), kept)

    def write(self, sp: SuperPrompt, config: PipelineConfig, answer: Condensed) -> None:
        trimmed = [chunk_id for chunk_id in sp.final_selection_ids if chunk_id not in answer.ids]
        sp.s_ctx_md = answer.text
        sp.final_selection_ids = list(answer.ids)
        sp.views_by_stage["a4"] = list(answer.ids)
        sp.extras["a4_decisions"] = self.config.log() | {
            "scores": answer.scores,
            "trimmed": trimmed,
            "rejected": answer.rejected,
        }

    def _trim(
        self, sp: SuperPrompt, ids: Sequence[str], scores: Mapping[str, float], config: PipelineConfig
    ) -> list[str]:
        left = self.config.max_attachment_tokens
        chosen: set[str] = set()
        for chunk in sp.chunks(sorted(ids, key=lambda chunk_id: -scores.get(chunk_id, -1.0))):
            size = count_tokens(chunk.snippet)
            if len(chosen) < config.limits.n3_final_selection_max and size <= left:
                chosen.add(chunk.id)
                left -= size
        return [chunk_id for chunk_id in ids if chunk_id in chosen]


def _little(sp: SuperPrompt) -> list[str]:
    return [f"- {LITTLE}"] if any(n["message"] == WEAK_SUPPORT for n in sp.extras.get("notices", [])) else []


def extract(
    query: str,
    chunks: Sequence[ContextChunk],
    sections: Sequence[str],
    cues: Mapping[str, Sequence[str]],
    budget: CompressPolicy,
) -> dict[str, list[str]]:
    """Return bullets by section: sentences of :func:`ragtune.canonical.compress`, each once, with their ``[n]``."""
    patterns = {name: _pattern(cues[name]) for name in sections if cues.get(name)}
    numbers = {chunk.id: number for number, chunk in enumerate(chunks, start=1)}
    bullets: dict[str, list[str]] = {name: [] for name in sections}
    seen: set[str] = set()
    excerpts = [e for e in compress(query, [_candidate(chunk) for chunk in chunks], budget) if e["score"] > 0.0]
    for excerpt in excerpts:
        number = numbers[f"{excerpt['doc_id']}#{excerpt['chunk_index']}"]
        for sentence in excerpt["text"].strip().split(_BREAK):
            if sentence.casefold() in seen:
                continue
            seen.add(sentence.casefold())
            named = [name for name, pattern in patterns.items() if pattern.search(sentence)]
            section = sections[-1] if sentence.endswith("?") else (named or [sections[0]])[-1]
            bullets[section].append(f"- {sentence} [{number}]")
    return bullets


def without_false_citations(text: str, sources: int) -> tuple[str, list[str]]:
    """``text`` without citations outside 1 to ``sources`` and links ``[n]: url``, and the removed lines."""
    kept: list[str] = []
    rejected: list[str] = []
    for line in text.split("\n"):
        cited = [int(number) for match in _CITATION.finditer(line) for number in _numbers(match)]
        if _DEFINITION.match(line) or (cited and not any(1 <= number <= sources for number in cited)):
            rejected.append(line)
        else:
            kept.append(_CITATION.sub(lambda match: _checked(match, sources), line).rstrip())
    return "\n".join(kept), rejected


def _checked(match: re.Match[str], sources: int) -> str:
    numbers = _numbers(match)
    true = [number for number in numbers if 1 <= int(number) <= sources]
    return match[0] if len(true) == len(numbers) else f"[{', '.join(true)}]" if true else ""


def _numbers(match: re.Match[str]) -> list[str]:
    return _NUMBER.findall(match[1] or "")


def _candidate(chunk: ContextChunk) -> Candidate:
    lines = (line.strip() for line in chunk.snippet.split("\n"))
    code = [
        f"`{line}`"
        for line in lines
        if _CODE_LIKE.match(line) and "`" not in line and line[:1] not in "#>|." and not _TAGS.fullmatch(line)
    ]
    text = _BREAK.join(
        sentences(chunk.snippet, chunk.start > 0) or [line for line in code if len(_LETTERS.findall(line)) > 2]
    )
    return Candidate(doc_id=chunk.doc_id, chunk_index=chunk.chunk_index, content=text, score=0.0)


def _pattern(cues: Sequence[str]) -> re.Pattern[str]:
    phrases = "|".join(r"\s+".join(map(re.escape, cue.split())) for cue in sorted(cues, key=len, reverse=True))
    return re.compile(rf"\b(?:{phrases})\b", re.IGNORECASE)


def sentences(text: str, begins_inside: bool = False) -> list[str]:
    """Sentences, list items and rows, without headings, code, introductions and an incomplete first one."""
    found: list[str] = []
    for number, unit in enumerate(_units(text, begins_inside)):
        starts = [0, *sentence_starts(unit)]
        for start, end in zip(starts, [*starts[1:], len(unit)], strict=True):
            sentence = one_line(unit[start:end])
            is_rest = begins_inside and number == 0 and start == 0 and sentence[:1].islower()
            if not is_rest and states(sentence):
                found.append(sentence.replace(_CELL, ": ", 1).replace(_CELL, "; "))
    return found


def states(sentence: str) -> bool:
    """Return whether a sentence, list item or row states something: no code, links, bare names or introduction."""
    words = _LETTERS.findall(_LINK.sub(" ", sentence))
    if sentence.endswith((":", "\uff1a")) or _CODE_LIKE.match(sentence):
        return False
    if not sentence.isascii() and any(not word.isascii() and len(word) > _LONGEST for word in words):
        return True  # a script without blanks between words
    if _CELL in sentence:
        cells = [len(_LETTERS.findall(cell)) for cell in sentence.split(_CELL)]
        return len(words) >= _LEAST_CELLS and 2 * sum(count > 1 for count in cells) >= len(cells)
    return len(words) >= _LEAST_WORDS and bool(_ENDS.search(sentence) or _VERB.search(sentence))


def _units(text: str, begins_inside: bool) -> Iterator[str]:
    unit: list[str] = []
    for line in _outside_code(text.split("\n"), begins_inside):
        row = _ROW.match(line)
        if _UNDERLINE.match(line) and unit:
            unit.clear()  # the line above it was a heading
        elif row and _RULE.match(line):
            unit.clear()  # the row above it was the table's head
        elif not line.strip() or _NO_PROSE.match(line) or row or _ITEM.match(line):
            yield "\n".join(unit)
            cells = _CELL.join(filter(None, map(str.strip, row[1].split("|")))) if row else ""
            unit = [cells] if row else [] if _NO_PROSE.match(line) else [_ITEM.sub("", line, count=1)]
        elif line.strip().startswith("|") or line.rstrip().endswith("|"):
            yield "\n".join(unit)
            unit = []  # the line itself is a row that the border of the text cuts
        else:
            unit.append(line)
    yield "\n".join(unit)


def _outside_code(text: list[str], begins_inside: bool) -> Iterator[str]:
    lines = [_QUOTE.sub("", line) for line in text]
    fences = [(number, match) for number, line in enumerate(lines) if (match := _FENCE.match(line))]
    # Of an odd number of fences the first closes earlier code, unless it names a language.
    closes = begins_inside and len(fences) % 2 == 1 and not fences[0][1]["info"].strip()
    begin = fences[0][0] + 1 if closes else 0
    is_literal = False
    for line, marks in zip(lines[begin:], code_marks(map(str.lstrip, lines[begin:])), strict=True):
        if is_literal and (not line.strip() or line[:1].isspace()):
            continue
        is_literal = not marks and bool(_LITERAL.match(line))
        yield "" if marks else line
