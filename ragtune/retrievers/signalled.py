"""A first stage together with the signals that have an opinion of what it found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseFusion, BaseRetriever, BaseSignal
from ragtune.core.pool.columns import require_finite
from ragtune.core.request.context import ORIGINAL, RAGtuneContext
from ragtune.core.types import ScoredDocument

SILENT_SIGNAL = "silent_signal"
"""Trace event of a signal that told no two documents of a query apart: of values that are missing or all equal."""


class SignalledRetriever(BaseRetriever):
    """Adds every signal to the documents of a first stage as a further source, and orders them by all sources.

    To estimators, a signal is one more first stage, which has an opinion of what the others found and finds nothing
    itself; see :func:`with_signals`. So every policy, fixed depth too, has the same signals. The documents are those of
    the first stage: ``top_k`` counts before they are ordered.

    Args:
        retriever: finds the documents.
        signals: by source name.
        fusion: merges the lists of all sources into one.

    Raises:
        ConfigError: if a signal's name cannot be one.
    """

    def __init__(self, retriever: BaseRetriever, signals: Mapping[str, BaseSignal], fusion: BaseFusion) -> None:
        for name in signals:
            if not name or "/" in name:
                raise ConfigError(f"signal name {name!r}: allowed is a text without '/'")
        self.retriever = retriever
        self._signals = dict(signals)
        self._fusion = fusion

    @property
    def echoes(self) -> frozenset[str]:
        """Names of the signals that are no witnesses, see :class:`~ragtune.core.interfaces.BaseSignal`."""
        return frozenset(name for name, signal in self._signals.items() if not signal.is_witness)

    def prepare(self) -> None:
        """Make the first stage and every signal ready."""
        self.retriever.prepare()
        for signal in self._signals.values():
            signal.prepare()

    def retrieve(self, context: RAGtuneContext, top_k: int) -> list[ScoredDocument]:
        """What the first stage finds, in the order of all sources.

        A signal that tells no two of several documents apart is written to the trace.

        Raises:
            ConfigError: if a signal has the name of a source of the first stage.
            InvalidScoreError: on a value that is not a finite number, by the names of signal and document.
        """
        found = self.retriever.retrieve(context, top_k)
        values = {name: signal.values(context, found) for name, signal in self._signals.items()}
        merged = with_signals(found, values, self._fusion)
        if len(merged) > 1:
            for name in self._signals:
                if name not in (merged[0].sources or {}):
                    context.trace.add("retriever", SILENT_SIGNAL, signal=name)
        return merged


def with_signals(
    documents: Sequence[ScoredDocument], signals: Mapping[str, Mapping[str, float]], fusion: BaseFusion
) -> list[ScoredDocument]:
    """The documents with each signal among their ``sources``, merged with the first stages' lists.

    A document of which a signal knows nothing has the median of what it knows: unlike a first stage, which passed over
    a document that it lacks, it has said nothing against it. A signal that tells no two documents apart is left out.
    Where a signal's values are equal, the order of the documents stands.

    Args:
        documents: what the first stages found, best first; one without ``sources`` is of a single one, ``original``.
        signals: ``{doc_id: value}`` by name, higher is better; values of other documents are not used.
        fusion: merges the lists.

    Raises:
        ConfigError: if a signal has the name of a first stage.
        InvalidScoreError: on a value that is not a finite number, by the names of signal and document.
    """
    ids = [document.id for document in documents]
    columns = {name: _column(name, values, ids) for name, values in signals.items()}
    telling = {name: column for name, column in columns.items() if len(set(column)) > 1}
    if not telling:
        return list(documents)
    lists = _by_source(documents)
    for name, column in telling.items():
        if name in lists:
            raise ConfigError(f"signal {name!r} has the name of a first stage: allowed is another one")
        order = sorted(range(len(ids)), key=lambda i: -column[i])
        lists[name] = [documents[i].model_copy(update={"score": column[i]}) for i in order]
    return fusion.fuse(lists)


def _column(name: str, values: Mapping[str, float], ids: Sequence[str]) -> list[float]:
    """One value a document; empty where nothing is known of any."""
    known = {doc_id: values[doc_id] for doc_id in ids if doc_id in values}
    require_finite(list(known.values()), list(known), f"signal {name!r}: value")
    if not known:
        return []
    unknown = median(known.values())
    return [float(known.get(doc_id, unknown)) for doc_id in ids]


def _by_source(documents: Sequence[ScoredDocument]) -> dict[str, list[ScoredDocument]]:
    """The lists that the documents were merged from, best first, equal scores in the order of the documents."""
    lists: dict[str, list[ScoredDocument]] = {}
    for document in documents:
        for name, score in (document.sources or {ORIGINAL: document.score}).items():
            lists.setdefault(name, []).append(document.model_copy(update={"score": score}))
    return {name: sorted(found, key=lambda document: -document.score) for name, found in lists.items()}
