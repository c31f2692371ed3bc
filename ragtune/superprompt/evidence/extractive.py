"""A condensed context without a language model: sentences of the sources as they stand."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from ragtune.canonical import Candidate, CompressPolicy, compress
from ragtune.data.text import terms
from ragtune.superprompt.chunks import ContextChunk
from ragtune.superprompt.reading.prose import sentences
from ragtune.superprompt.reading.stopwords import content_words

_BETWEEN = "\n\n"


def extract(
    query: str,
    chunks: Sequence[ContextChunk],
    sections: Sequence[str],
    cues: Mapping[str, Sequence[str]],
    budget: CompressPolicy,
    least: float = 0.0,
) -> dict[str, list[str]]:
    """Bullets by section: the sentences that :func:`ragtune.canonical.compress` takes, each once, with its source.

    A source none of whose sentences (:func:`ragtune.superprompt.reading.prose.sentences`) shares a term with the query gives
    none.

    A sentence with a section's cue goes there (the last section of those with one), and to the first section without;
    a question goes to the last section.

    Args:
        query: what the sentences have to be about; give only the words that say so.
        chunks: the sources, best first; the n-th is ``[n]``.
        sections: names of the sections, in order.
        cues: section -> words and phrases that give a sentence away.
        budget: how many tokens all sentences together may have, and how they are chosen.
        least: how much of the query a sentence must cover, as a share of what the best one covers, in [0, 1].
    """
    patterns = {name: _pattern(cues[name]) for name in sections if cues.get(name)}
    numbers = {chunk.id: number for number, chunk in enumerate(chunks, start=1)}
    bullets: dict[str, list[str]] = {name: [] for name in sections}
    seen: set[str] = set()
    excerpts = [e for e in compress(query, [_candidate(chunk) for chunk in chunks], budget) if e["score"] > 0.0]
    floor = least * max((excerpt["score"] for excerpt in excerpts), default=0.0)
    for excerpt in excerpts:
        if excerpt["score"] < floor:
            continue
        number = numbers[f"{excerpt['doc_id']}#{excerpt['chunk_index']}"]
        for sentence in excerpt["text"].strip().split(_BETWEEN):
            if sentence.casefold() in seen:
                continue
            seen.add(sentence.casefold())
            named = [name for name, pattern in patterns.items() if pattern.search(sentence)]
            section = sections[-1] if sentence.endswith("?") else (named or [sections[0]])[-1]
            bullets[section].append(f"- {sentence} [{number}]")
    return bullets


def unmentioned(question: str, chunks: Sequence[ContextChunk], ignored: Collection[str]) -> list[str]:
    """Words of the question whose stem no chunk holds, in order, without numbers and what is to be ignored."""
    held = {term for chunk in chunks for term in terms(chunk.snippet)}.union(*map(terms, ignored))
    missing: dict[str, str] = {}
    for word, term in content_words(question):
        if term not in held and word not in ignored and not word.isdigit():
            missing.setdefault(term, word)
    return list(missing.values())


def _candidate(chunk: ContextChunk) -> Candidate:
    said = _BETWEEN.join(sentences(chunk.snippet, chunk.start > 0))
    return Candidate(doc_id=chunk.doc_id, chunk_index=chunk.chunk_index, content=said, score=0.0)


def _pattern(cues: Sequence[str]) -> re.Pattern[str]:
    phrases = "|".join(r"\s+".join(map(re.escape, cue.split())) for cue in sorted(cues, key=len, reverse=True))
    return re.compile(rf"\b(?:{phrases})\b", re.IGNORECASE)
