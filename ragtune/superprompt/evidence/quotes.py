"""Quotations from sources without a language model, and citations that name an existing source."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from ragtune.canonical import Candidate, CompressPolicy, compress
from ragtune.data.text import terms
from ragtune.superprompt.chunks import ContextChunk
from ragtune.superprompt.reading.prose import sentences
from ragtune.superprompt.reading.stopwords import content_words

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


def extract(
    query: str,
    chunks: Sequence[ContextChunk],
    sections: Sequence[str],
    cues: Mapping[str, Sequence[str]],
    budget: CompressPolicy,
) -> dict[str, list[str]]:
    """Return bullets by section: sentences of :func:`ragtune.canonical.compress`, each once, with its source ``[n]``.

    A source without a term of the query is not quoted. A sentence with a section's cue goes to the last such section, a
    question to the last section, every other sentence to the first.
    """
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


def unmentioned(question: str, chunks: Sequence[ContextChunk], ignored: Collection[str]) -> list[str]:
    """Return the words of a question whose stem no chunk holds, in order, without numbers and ignored words."""
    held = {term for chunk in chunks for term in terms(chunk.snippet)}.union(*map(terms, ignored))
    missing: dict[str, str] = {}
    for word, term in content_words(question):
        if term not in held and word not in ignored and not word.isdigit():
            missing.setdefault(term, word)
    return list(missing.values())


def without_false_citations(text: str, sources: int) -> tuple[str, list[str]]:
    """Return ``text`` without citations ``[n]`` outside 1 to ``sources``, and the removed lines.

    A line with false citations only is removed. Of a line with true ones too, only the false ones are (``[1, 9]``
    becomes ``[1]``). Lines without a citation stay. A line ``[n]: url`` is removed, because it would turn every ``[n]``
    into a link.
    """
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
    text = _BREAK.join(sentences(chunk.snippet, chunk.start > 0))
    return Candidate(doc_id=chunk.doc_id, chunk_index=chunk.chunk_index, content=text, score=0.0)


def _pattern(cues: Sequence[str]) -> re.Pattern[str]:
    phrases = "|".join(r"\s+".join(map(re.escape, cue.split())) for cue in sorted(cues, key=len, reverse=True))
    return re.compile(rf"\b(?:{phrases})\b", re.IGNORECASE)
