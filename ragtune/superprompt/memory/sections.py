"""Chunks under their headings, and how probably each is relevant to a prompt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ragtune.canonical.chunking import HEADINGS
from ragtune.superprompt.reading.text import terms
from ragtune.superprompt.super_prompt import ContextChunk

if TYPE_CHECKING:
    from ragtune.superprompt.memory.documents import TermIndex

_SUFFIX = re.compile(r"\.[a-z]{2,8}\Z", re.IGNORECASE)
_LINK = re.compile(r"\]\([^)]*\)|:[a-z]+:`|https?://")
_WORD = re.compile(r"[^\W\d_]{2,}")
_K1, _B = 1.2, 0.75
_INTERCEPT, _SIMILARITY, _SECTION, _HEADINGS, _LINKS = -4.99, 5.9, 3.03, 6.04, -13.47


def context(chunk: ContextChunk) -> str:
    """Return the words of a file's name and of the headings that a chunk is under; empty for a passage without any."""
    name = re.sub(r"[\W_]+", " ", _SUFFIX.sub("", chunk.doc_id)) if _SUFFIX.search(chunk.doc_id) else ""
    return " ".join([name, *map(str, chunk.metadata.get(HEADINGS, ()))]).strip()


class Sections:
    """The sections of a memory's chunks, which share document and headings, and P(relevant) of chunks.

    The logistic model was fitted to 14 tuning prompts of ``datasets/prompts``.
    """

    def __init__(self, chunks: Sequence[ContextChunk], index: TermIndex) -> None:
        self._index = index
        self._rows = {chunk.id: row for row, chunk in enumerate(chunks)}
        self.contexts = {chunk.id: context(chunk) for chunk in chunks}
        places: dict[tuple[str, ...], int] = {}
        keys = ((chunk.doc_id, *map(str, chunk.metadata.get(HEADINGS, ()))) for chunk in chunks)
        self._section = np.array([places.setdefault(key, len(places)) for key in keys])

    def relevance(
        self, wording: Sequence[str], ids: Sequence[str], texts: Sequence[str], similarities: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return P(relevant) of each candidate: from its similarity in [-1, 1], section, headings and share of links.

        Section (BM25) and headings count as shares of what the prompt's terms can reach in this collection. So a score
        does not depend on the other candidates.
        """
        frequencies = np.array([self._index.frequency(term) for term in wording])
        idf = np.log1p((len(self._rows) - frequencies + 0.5) / (frequencies + 0.5))
        known = [place for place, frequency in enumerate(frequencies) if frequency]
        sections = self._weights[:, [self._index.columns[wording[place]] for place in known]] @ idf[known]
        logits = _INTERCEPT + _SIMILARITY * similarities
        for number, (chunk_id, text) in enumerate(zip(ids, texts, strict=True)):
            titles = set(terms(self.contexts.get(chunk_id, "")))
            found = _HEADINGS * sum(weight for term, weight in zip(wording, idf, strict=True) if term in titles)
            if chunk_id in self._rows:
                found += _SECTION * sections[self._section[self._rows[chunk_id]]]
            links = len(_LINK.findall(text)) / max(1, len(_WORD.findall(text)))
            logits[number] += found / (idf.sum() or 1.0) + _LINKS * links
        return np.asarray(1.0 / (1.0 + np.exp(-logits)), dtype=np.float64)

    @cached_property
    def _weights(self) -> Any:
        """BM25's weight of every term in every section, without idf."""
        from scipy.sparse import csr_matrix

        raw = self._index.counts.copy()
        raw.data = np.exp(raw.data - 1.0)
        members = csr_matrix((np.ones(len(self._section)), (self._section, np.arange(len(self._section)))))
        counts = (members @ raw).tocsr()
        lengths = np.asarray(counts.sum(axis=1)).ravel()
        norms = _K1 * (1.0 - _B + _B * lengths / (lengths.mean() or 1.0))
        counts.data = counts.data * (_K1 + 1.0) / (counts.data + np.repeat(norms, np.diff(counts.indptr)))
        return counts.tocsc()
