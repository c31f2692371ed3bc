"""A first stage and signals that order its documents."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from ragtune.core.component import documents_of, queries_of
from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseFusion, BaseRetriever, BaseSignal
from ragtune.core.pool.columns import require
from ragtune.core.request.context import ORIGINAL, RAGtuneContext, first_stage_of
from ragtune.core.types import ScoredDocument

SILENT_SIGNAL = "silent_signal"
"""Trace event of a signal whose values for a query are all missing or equal."""


class SignalledRetriever(BaseRetriever):
    """Adds every signal to the documents of a first stage as a further source, and orders them by all sources.

    To estimators, a signal is one more first stage, which finds no documents itself. So every policy, fixed depth too,
    has the same signals. The documents are those of the first stage: ``top_k`` counts before they are ordered.

    A document without a value gets the median of the signal's values: a first stage ranks a document that it did not
    find last, but a signal says nothing against a document that it does not know. A signal whose values are all equal
    is left out. Documents with equal values keep their order.
    """

    def __init__(self, retriever: BaseRetriever, signals: Mapping[str, BaseSignal], fusion: BaseFusion) -> None:
        for name in signals:
            if not name or "/" in name or first_stage_of(name) != name:
                raise ConfigError(f"signal name {name!r}: allowed is a text without '/', not that of a rewrite's round")
        self.retriever = retriever
        self.signals = frozenset(signals)
        self._signals = dict(signals)
        self._fusion = fusion

    @property
    def echoes(self) -> frozenset[str]:
        """Names of the derived sources among the signals, see :class:`~ragtune.core.interfaces.BaseSignal`."""
        return frozenset(name for name, signal in self._signals.items() if not signal.is_witness)

    def prepare(self) -> None:
        self.retriever.prepare()
        for signal in self._signals.values():
            signal.prepare()

    def recorded_queries(self) -> Mapping[str, Collection[str]]:
        parts = (self.retriever, *self._signals.values())
        return {name: ids for part in parts for name, ids in queries_of(part).items()}

    def recorded_documents(self) -> Mapping[str, Collection[str]]:
        return {name: ids for part in self._signals.values() for name, ids in documents_of(part).items()}

    def retrieve(self, context: RAGtuneContext, top_k: int) -> list[ScoredDocument]:
        """The documents of the first stage in the order of all sources; signals judge them by the user's query."""
        found = self.retriever.retrieve(context, top_k)
        heard = context.remember(self, lambda: _Heard(context.query))
        asked = context.model_copy(update={"query": heard.query, "round": ORIGINAL})
        known = _known(found, {name: signal.values(asked, found) for name, signal in self._signals.items()})
        if heard.unknown is None and found:
            heard.unknown = _unknown(known)
            for name in known if len(found) > 1 else ():
                if name not in heard.unknown:
                    context.trace.add("retriever", SILENT_SIGNAL, signal=name)
        return _merged(found, known, heard.unknown or {}, self._fusion)


@dataclass
class _Heard:
    """The user's query, and by signal, the value of documents that it does not know; None before the first round."""

    query: str
    unknown: Mapping[str, float] | None = None


def with_signals(
    documents: Sequence[ScoredDocument], signals: Mapping[str, Mapping[str, float]], fusion: BaseFusion
) -> list[ScoredDocument]:
    """The documents with each signal among their ``sources``, merged as by :class:`SignalledRetriever`."""
    known = _known(documents, signals)
    return _merged(documents, known, _unknown(known), fusion)


def _known(
    documents: Sequence[ScoredDocument], signals: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, float]]:
    """The values of each signal for the documents, checked."""
    known = {}
    for name, values in signals.items():
        known[name] = {document.id: values[document.id] for document in documents if document.id in values}
        numbers = np.array(list(known[name].values()), dtype=float)
        require(np.isfinite(numbers), numbers, list(known[name]), f"signal {name!r}: value", "a finite number")
    return known


def _unknown(known: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The median of each signal with different values."""
    return {name: median(values.values()) for name, values in known.items() if len(set(values.values())) > 1}


def _merged(
    documents: Sequence[ScoredDocument],
    known: Mapping[str, Mapping[str, float]],
    unknown: Mapping[str, float],
    fusion: BaseFusion,
) -> list[ScoredDocument]:
    """The documents, merged with the signals that have a value for unknown documents."""
    if not unknown:
        return list(documents)
    lists = _by_source(documents)
    for name, otherwise in unknown.items():
        if name in lists or first_stage_of(name) != name:
            raise ConfigError(f"signal {name!r} has the name of a first stage: allowed is another one")
        column = [float(known[name].get(document.id, otherwise)) for document in documents]
        order = sorted(range(len(column)), key=lambda i: -column[i])
        lists[name] = [documents[i].model_copy(update={"score": column[i]}) for i in order]
    return fusion.fuse(lists)


def _by_source(documents: Sequence[ScoredDocument]) -> dict[str, list[ScoredDocument]]:
    """The lists that the documents were merged from, best first, equal scores in the order of the documents."""
    lists: dict[str, list[ScoredDocument]] = {}
    for document in documents:
        for name, score in (document.sources or {ORIGINAL: document.score}).items():
            lists.setdefault(name, []).append(document.model_copy(update={"score": score}))
    return {name: sorted(found, key=lambda document: -document.score) for name, found in lists.items()}
