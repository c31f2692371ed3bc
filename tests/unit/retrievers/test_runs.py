from collections.abc import Callable
from pathlib import Path

import pytest

from ragtune.core.errors import ConfigError, DatasetError
from ragtune.core.request.context import RAGtuneContext
from ragtune.data.corpus import Corpus
from ragtune.fusion.concat import ConcatFusion
from ragtune.fusion.rrf import RRFFusion
from ragtune.retrievers.runs import RunsRetriever

MakeContext = Callable[..., RAGtuneContext]


def _run(folder: Path, name: str, *rows: tuple[str, float]) -> str:
    file = folder / f"{name}.run"
    lines = [f"q1 Q0 {doc_id} {rank} {score} x\n" for rank, (doc_id, score) in enumerate(rows, start=1)]
    file.write_text("".join(lines), encoding="utf-8")
    return str(file)


def test_each_run_is_a_named_source_and_the_union_takes_top_k_of_each(
    tmp_path: Path, corpus: Corpus, make_context: MakeContext
) -> None:
    a, b, c = corpus.doc_ids[:3]
    paths = [_run(tmp_path, "bm25", (a, 9.0), (b, 8.0)), _run(tmp_path, "dense", (c, 0.9), (a, 0.8))]
    found = RunsRetriever(corpus, paths, ConcatFusion()).retrieve(make_context(), 1)
    assert {doc.id: doc.sources for doc in found} == {a: {"bm25": 9.0}, c: {"dense": 0.9}}
    both = RunsRetriever(corpus, paths, RRFFusion()).retrieve(make_context(), 2)
    assert next(doc for doc in both if doc.id == a).sources == {"bm25": 9.0, "dense": 0.8}


def test_a_single_run_keeps_its_own_scores_whatever_the_fusion(
    tmp_path: Path, corpus: Corpus, make_context: MakeContext
) -> None:
    a, b = corpus.doc_ids[:2]
    retriever = RunsRetriever(corpus, _run(tmp_path, "bm25", (a, 9.0), (b, 8.0)), RRFFusion())
    assert [(doc.id, doc.score) for doc in retriever.retrieve(make_context(), 5)] == [(a, 9.0), (b, 8.0)]


def test_scores_rule_and_the_files_rank_breaks_ties(tmp_path: Path, corpus: Corpus, make_context: MakeContext) -> None:
    a, b, c = corpus.doc_ids[:3]
    retriever = RunsRetriever(corpus, _run(tmp_path, "bm25", (b, 1.0), (a, 1.0), (c, 5.0)))
    assert [doc.id for doc in retriever.retrieve(make_context(), 5)] == [c, b, a]


def test_a_rewrite_cannot_be_replayed(tmp_path: Path, corpus: Corpus, make_context: MakeContext) -> None:
    retriever = RunsRetriever(corpus, _run(tmp_path, "bm25", (corpus.doc_ids[0], 1.0)))
    with pytest.raises(ConfigError, match="cannot answer the rewrite"):
        retriever.retrieve(make_context(round="rewrite_0"), 5)


def test_a_run_of_another_collection_is_refused_with_an_id_of_each(tmp_path: Path, corpus: Corpus) -> None:
    with pytest.raises(DatasetError, match=f"none of the 1 documents of run file.*'ghost'.*{corpus.doc_ids[0]!r}"):
        RunsRetriever(corpus, _run(tmp_path, "bm25", ("ghost", 1.0)))


def test_sources_need_distinct_names_and_several_need_a_fusion(tmp_path: Path, corpus: Corpus) -> None:
    (tmp_path / "other").mkdir()
    one = _run(tmp_path, "bm25", (corpus.doc_ids[0], 1.0))
    two = _run(tmp_path / "other", "bm25", (corpus.doc_ids[0], 1.0))
    with pytest.raises(ConfigError, match="share a name"):
        RunsRetriever(corpus, [one, two], RRFFusion())
    with pytest.raises(ConfigError, match="need a fusion"):
        RunsRetriever(corpus, [one, _run(tmp_path, "dense", (corpus.doc_ids[0], 1.0))])
    with pytest.raises(ConfigError, match="is empty"):
        RunsRetriever(corpus, [])
