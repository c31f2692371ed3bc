"""Signals beside a first stage: what they add to it, and what they must not change."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ragtune.core.errors import ConfigError, InvalidScoreError
from ragtune.core.interfaces import BaseReformulator, BaseRetriever, BaseSignal
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.rounds import RetrievalDepths, RetrievalRounds, aggregate
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus
from ragtune.fusion.rrf import RRFFusion
from ragtune.retrievers.in_memory import InMemoryRetriever
from ragtune.retrievers.runs import RunsRetriever
from ragtune.retrievers.signalled import SILENT_SIGNAL, SignalledRetriever, with_signals
from ragtune.signals.table import TableSignal
from ragtune.testing import make_context, small_corpus

FOUND = [ScoredDocument(id=doc_id, score=9.0 - i, original_score=9.0 - i) for i, doc_id in enumerate("abcdef")]


def ranked(signals: Mapping[str, Mapping[str, float]], documents: Sequence[ScoredDocument] = FOUND) -> str:
    return "".join(document.id for document in with_signals(documents, signals, RRFFusion()))


class Fixed(BaseSignal):
    def __init__(self, values: Mapping[str, float]) -> None:
        self._values = values

    def values(self, context: RAGtuneContext, documents: Sequence[ScoredDocument]) -> Mapping[str, float]:
        return self._values


def test_a_signal_is_a_source_like_the_first_stage_and_moves_what_it_speaks_for() -> None:
    found = with_signals(FOUND, {"clicks": {"f": 7.0, "a": 1.0, "b": 3.0, "c": 2.0, "d": 1.0, "e": 2.0}}, RRFFusion())
    assert [document.id for document in found] == list("bacfed")
    assert found[3].sources == {"original": 4.0, "clicks": 7.0}
    assert found[3].original_score == 4.0


def test_two_runs_are_the_same_whether_one_finds_or_judges_what_the_other_found(tmp_path: Path) -> None:
    corpus: Corpus = small_corpus()
    files = []
    for name, ids in (("one", corpus.doc_ids), ("two", sorted(corpus.doc_ids))):
        lines = [f"q1 Q0 {doc_id} {rank} {1.0 / rank} {name}\n" for rank, doc_id in enumerate(ids, start=1)]
        files.append(tmp_path / f"{name}.run")
        files[-1].write_text("".join(lines), encoding="utf-8")
    both = RunsRetriever(corpus, [str(file) for file in files], RRFFusion())
    signalled = SignalledRetriever(RunsRetriever(corpus, str(files[0])), {"two": TableSignal(files[1])}, RRFFusion())
    found, expected = (stage.retrieve(make_context(), 100) for stage in (signalled, both))
    assert [(d.id, d.score, d.sources) for d in found] == [(d.id, d.score, d.sources) for d in expected]


@pytest.mark.parametrize("values", [{}, dict.fromkeys("abcdef", 3.0), {"c": 8.0}, {"elsewhere": 1.0}])
def test_a_signal_that_tells_no_documents_apart_changes_nothing(values: Mapping[str, float]) -> None:
    assert with_signals(FOUND, {"silent": values}, RRFFusion()) == FOUND


def test_a_signal_that_tells_no_documents_apart_is_in_the_trace() -> None:
    signals = {"silent": Fixed({}), "speaks": Fixed({"a": 1.0, "b": 2.0})}
    for documents, silent in ((FOUND, [{"signal": "silent"}]), (FOUND[:1], [])):
        context = make_context()
        SignalledRetriever(InMemoryRetriever(documents), signals, RRFFusion()).retrieve(context, 100)
        assert [event.details for event in context.trace.find(SILENT_SIGNAL)] == silent


def test_what_a_signal_does_not_know_is_neither_better_nor_worse_than_the_rest() -> None:
    found = with_signals(FOUND, {"clicks": {"a": 1.0, "b": 5.0, "c": 2.0}}, RRFFusion())
    assert {document.id: document.sources["clicks"] for document in found}["f"] == 2.0


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_finite_number_is_refused_by_signal_and_document(value: float) -> None:
    with pytest.raises(InvalidScoreError, match=r"signal 'clicks': value (nan|inf) of document 'b'"):
        ranked({"clicks": {"a": 1.0, "b": value}})


def test_a_signal_cannot_take_the_name_of_a_first_stage() -> None:
    with pytest.raises(ConfigError, match="signal 'original' has the name of a first stage"):
        ranked({"original": {"a": 1.0, "b": 2.0}})
    with pytest.raises(ConfigError, match="signal 'rewrite_1' has the name of a first stage"):
        ranked({"rewrite_1": {"a": 1.0, "b": 2.0}})
    for name in ("a/b", "", "rewrite_0"):
        with pytest.raises(ConfigError, match=f"signal name '{name}'"):
            SignalledRetriever(RunsRetriever.__new__(RunsRetriever), {name: Fixed({})}, RRFFusion())


class Views(BaseRetriever):
    """Given documents for each query, best first."""

    def __init__(self, found: Mapping[str, str]) -> None:
        self._found = found

    def retrieve(self, context: RAGtuneContext, top_k: int) -> list[ScoredDocument]:
        ids = self._found[context.query][:top_k]
        return [ScoredDocument(id=doc_id, score=90.0 - i, original_score=90.0 - i) for i, doc_id in enumerate(ids)]


class Asked(Fixed):
    """Notes what it is asked for."""

    queries: list[str]

    def values(self, context: RAGtuneContext, documents: Sequence[ScoredDocument]) -> Mapping[str, float]:
        self.queries.append(context.query)
        return self._values


class Rewrites(BaseReformulator):
    def generate(self, context: RAGtuneContext, first_round: Sequence[ScoredDocument]) -> list[str]:
        return ["again", "once more"]


def pool_of(found: Mapping[str, str], signals: Mapping[str, BaseSignal]) -> tuple[CandidatePool, RAGtuneContext]:
    context = make_context("query")
    retriever = SignalledRetriever(Views(found), signals, RRFFusion())
    return aggregate(RetrievalRounds(retriever, Rewrites(), RetrievalDepths()).run(context)), context


def test_a_signal_says_the_same_of_a_document_whichever_round_found_it() -> None:
    clicks = Asked({"a": 1.0, "b": 8.0, "c": 2.0, "y": 9.0, "z": 0.5})
    clicks.queries = []
    pool, context = pool_of({"query": "abcdef", "again": "bxy", "once more": "z"}, {"clicks": clicks})
    values = {item.doc_id: item.sources["clicks"] for item in pool.entries}
    assert values == {"a": 1.0, "b": 8.0, "c": 2.0, "y": 9.0, "z": 0.5} | dict.fromkeys("defx", 2.0)
    assert {name for item in pool.entries for name in item.sources} == {
        *("original", "clicks", "rewrite_0/original", "rewrite_1/original")
    }
    assert clicks.queries == ["query"] * 3
    assert not context.trace.find(SILENT_SIGNAL)


def test_a_signal_that_tells_nothing_of_what_the_query_found_is_silent_once_and_judges_no_rewrite() -> None:
    pool, context = pool_of({"query": "abc", "again": "xy", "once more": "y"}, {"clicks": Fixed({"x": 1.0, "y": 2.0})})
    assert not any("clicks" in name for item in pool.entries for name in item.sources)
    assert len(context.trace.find(SILENT_SIGNAL)) == 1
