"""What an answer and its prompt rest on, judged by rule: no model grades another's words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from statistics import fmean

from ragtune.canonical.sentences import sentence_starts
from ragtune.data.text import terms
from ragtune.superprompt import SuperPrompt
from ragtune.superprompt.chunks import document_of

MIN_TERMS = 3
"""Sentences with fewer different terms state nothing that could be looked up."""

SHARE = 0.6
"""Of a sentence's terms, what one passage must hold to support it."""

_CITED = re.compile(r"\[(\d{1,3})\]")


def selection_precision(done: SuperPrompt, relevant: Collection[str]) -> float:
    """Share of the attachments that are of relevant documents, in [0, 1]; 0 without attachments."""
    return _share([document_of(chunk_id) in relevant for chunk_id in done.final_selection_ids])


def selection_recall(done: SuperPrompt, relevant: Collection[str]) -> float:
    """Share of the relevant documents that are attached, in [0, 1]."""
    attached = {document_of(chunk_id) for chunk_id in done.final_selection_ids}
    return _share([doc_id in attached for doc_id in relevant])


def bullet_precision(done: SuperPrompt, relevant: Collection[str]) -> float | None:
    """Share of the bullets of S_CTX that cite relevant documents only; None without a bullet that cites."""
    documents = [document_of(chunk_id) for chunk_id in done.final_selection_ids]
    found = []
    for line in done.s_ctx_md.split("\n"):
        cited = [int(number) for number in _CITED.findall(line)]
        if line.lstrip().startswith(("-", "*")) and cited:
            found.append(all(0 < number <= len(documents) and documents[number - 1] in relevant for number in cited))
    return _share(found) if found else None


def answer_support(answer: str, passages: Iterable[str]) -> float | None:
    """Share of an answer's sentences that one of the passages supports; None for an answer that states nothing.

    A passage supports a sentence if it holds at least ``SHARE`` of its different stemmed terms. Paraphrases that share
    no word count as unsupported, so the figure is for comparing answers, and no rate of true statements.
    """
    known = [set(terms(passage)) for passage in passages]
    stated = [set(terms(sentence)) for sentence in _sentences(answer)]
    checked = [words for words in stated if len(words) >= MIN_TERMS]
    if not checked:
        return None
    return _share([any(len(words & held) >= SHARE * len(words) for held in known) for words in checked])


def _sentences(text: str) -> list[str]:
    plain = _CITED.sub(" ", text)
    edges = [0, *sentence_starts(plain), len(plain)]
    return [plain[start:end] for start, end in pairwise(edges)]


def _share(held: Sequence[bool]) -> float:
    return fmean(held) if held else 0.0
