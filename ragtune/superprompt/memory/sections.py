"""Chunks under their headings, and how probably each is relevant to a prompt."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import cached_property
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtune.canonical.chunking import HEADINGS
from ragtune.superprompt.frozen import Frozen
from ragtune.superprompt.super_prompt import ContextChunk

_UNDERLINED = re.compile(r"(?m)^(?=.*\w)(\S.*)\n([=\-~^\"+*#])\2{2,}[ \t]*$")
_SUFFIX = re.compile(r"\.[a-z]{2,8}\Z", re.IGNORECASE)
_LINK = re.compile(r"\]\([^)]*\)|:[a-z]+:`|https?://")
_WORD = re.compile(r"[^\W\d_]{2,}")
_K1, _B, _B_HEADINGS = 1.2, 0.75, 0.3


class RelevanceModel(Frozen):
    """Weights of a logistic model, fitted to the tuning prompts of ``datasets/prompts``."""

    intercept: float
    similarity: float
    section: float
    headings: float
    links: float

    @staticmethod
    def load() -> RelevanceModel:
        file = files("ragtune.superprompt") / "config" / "relevance.v1.json"
        return RelevanceModel.model_validate_json(file.read_text(encoding="utf-8"))


def underlined_headings(text: str) -> list[tuple[int, int, str]]:
    """Return position, level and title of headings that a line of one mark underlines, as in reStructuredText."""
    marks: list[str] = []
    found = []
    for match in _UNDERLINED.finditer(text):
        if len(match[0]) >= 2 * len(match[1].rstrip()) - 1:
            marks += [match[2]] if match[2] not in marks else []
            found.append((match.start(), marks.index(match[2]), match[1].strip()))
    return found


def path_at(headings: Sequence[tuple[int, int, str]], position: int) -> list[str]:
    """Return the titles that a position of the text is under, outermost first."""
    path: list[tuple[int, str]] = []
    for start, level, title in headings:
        if start > position:
            break
        path = [above for above in path if above[0] < level] + [(level, title)]
    return [title for _, title in path]


def context(chunk: ContextChunk) -> str:
    """Return the words of a file's name and of the headings that a chunk is under; empty for a passage without any."""
    name = re.sub(r"[\W_]+", " ", _SUFFIX.sub("", chunk.doc_id)) if _SUFFIX.search(chunk.doc_id) else ""
    return " ".join([name, *map(str, chunk.metadata.get(HEADINGS, ()))]).strip()


class Sections:
    """The sections of a memory's chunks. A section's chunks share document and headings.

    Args:
        chunks: all chunks of the memory.
        index: their term index, with contexts.
        headings: term index of the contexts alone.
    """

    def __init__(self, chunks: Sequence[ContextChunk], index: Any, headings: Any) -> None:
        self._index = index
        self._headings = headings
        self.rows = {chunk.id: row for row, chunk in enumerate(chunks)}
        self.contexts = {chunk.id: context(chunk) for chunk in chunks}
        places: dict[tuple[str, ...], int] = {}
        keys = ((chunk.doc_id, *map(str, chunk.metadata.get(HEADINGS, ()))) for chunk in chunks)
        self._section = np.array([places.setdefault(key, len(places)) for key in keys])
        self._model = RelevanceModel.load()

    def relevance(
        self, terms: Collection[str], ids: Sequence[str], texts: Sequence[str], similarities: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return P(relevant) of each candidate, from its similarity in [-1, 1], section, headings and share of links.

        The scores of section and headings are shares of what the prompt's terms can reach in this collection, so they
        compare with nothing but the prompt.
        """
        idf = np.array([self._idf(term) for term in terms])
        reachable = float(idf.sum()) or 1.0
        rows = np.array([self.rows.get(chunk_id, -1) for chunk_id in ids])
        known = rows >= 0
        section, headings = np.zeros(len(ids)), np.zeros(len(ids))
        places = [self._index.columns.get(term, -1) for term in terms]
        weighted = self._of_sections[:, [p for p in places if p >= 0]] @ idf[np.array(places) >= 0]
        section[known] = weighted[self._section[rows[known]]]
        places = [self._headings.columns.get(term, -1) for term in terms]
        headings[known] = self._of_headings[rows[known]][:, [p for p in places if p >= 0]] @ idf[np.array(places) >= 0]
        links = np.array([len(_LINK.findall(text)) / max(1, len(_WORD.findall(text))) for text in texts])
        model = self._model
        logits = model.intercept + model.similarity * similarities + model.links * links
        logits += (model.section * section + model.headings * headings) / reachable
        return np.asarray(1.0 / (1.0 + np.exp(-logits)), dtype=np.float64)

    def _idf(self, term: str) -> float:
        texts, frequency = len(self.rows), self._index.frequency(term)
        return float(np.log1p((texts - frequency + 0.5) / (frequency + 0.5)) if frequency else np.log1p(2.0 * texts))

    @cached_property
    def _of_sections(self) -> Any:
        from scipy.sparse import csr_matrix

        raw = self._index.counts.copy()
        raw.data = np.exp(raw.data - 1.0)
        sections = csr_matrix((np.ones(len(self._section)), (self._section, np.arange(len(self._section)))))
        return _saturated((sections @ raw).tocsr(), _B).tocsc()

    @cached_property
    def _of_headings(self) -> Any:
        raw = self._headings.counts.copy()
        raw.data = np.exp(raw.data - 1.0)
        return _saturated(raw, _B_HEADINGS)


def _saturated(counts: Any, b: float) -> Any:
    """Counts as BM25 weighs them: ``n (k1 + 1) / (n + k1 (1 - b + b length / mean length))``."""
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    norms = _K1 * (1.0 - b + b * lengths / (lengths.mean() or 1.0))
    counts.data = counts.data * (_K1 + 1.0) / (counts.data + np.repeat(norms, np.diff(counts.indptr)))
    return counts
