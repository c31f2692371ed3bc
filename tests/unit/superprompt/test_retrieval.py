import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from superprompt_agents import chunk_memory

from ragtune.core.errors import DatasetError
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.tokens import count_tokens
from ragtune.data.corpus import Corpus
from ragtune.data.text import terms, words_or_pairs
from ragtune.superprompt import ContextChunk, Pipeline, PipelineConfig, SuperPrompt, Turn
from ragtune.superprompt.memory.documents import BaseMemory, DocumentMemory, Matches, TermIndex
from ragtune.superprompt.memory.inputs import read_folder
from ragtune.superprompt.pipeline import build_pipeline
from ragtune.superprompt.reading.text import words
from ragtune.superprompt.rendering import normalized_query
from ragtune.superprompt.retriever import SuperPromptRetriever
from ragtune.superprompt.stages.retrieval import conversation_chunks, log_avg_exp, split_query

Make = Callable[..., Pipeline]
Reach = Callable[..., SuperPrompt]


def test_the_query_is_task_context_and_purpose_in_order() -> None:
    body = {"purpose": "why", "task": "  do\n\tthis ", "context": "", "tone": "sad", "format": "list"}
    assert normalized_query(body) == "do this\nwhy"


@pytest.mark.parametrize(
    ("task", "searched"),
    [
        ("How are dates stored? As a JSON array of objects with keys field, meaning.", "How are dates stored? ."),
        ("How can the client write CSV files?", "How can the client write CSV files?"),
        ("In drei Stichpunkten: Was ist ein Monorepo?", ": Was ist ein Monorepo?"),
        ("As a JSON list.", "As a JSON list."),
    ],
)
def test_words_about_the_form_of_the_answer_find_no_documents(reach: Reach, task: str, searched: str) -> None:
    assert " ".join(reach("retrieval", text=task).extras["retrieval"]["pieces"]).split() == searched.split()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pluginTimeout", ["plugin", "timeout"]),
        ("FST_ERR_PLUGIN_TIMEOUT", ["fst", "err", "plugin", "timeout"]),
        ("HTTPServer.max_header_size", ["http", "server", "max", "header", "size"]),
        ("__init__", ["init"]),
        ("URLs, JSON, package.json", []),
    ],
)
def test_names_in_code_are_found_as_a_whole_and_by_their_parts(text: str, found: list[str]) -> None:
    assert words(text) == words_or_pairs(text) + found
    memory = chunk_memory({"a.md": f"Set {text} first.", "b.md": "The sea."})
    assert (memory.search(words(text), [], 9).cosines > 0).all(axis=1).tolist() == [True, False]


def test_a_long_query_has_n0_pieces_that_end_with_sentences() -> None:
    query = " ".join(f"Sentence number {i} is about nine tokens long." for i in range(20))
    pieces = split_query(query, 5, 8, 0.25)
    assert (len(pieces), " ".join(pieces)) == (5, query)
    assert all(piece.startswith("Sentence") and piece.endswith(".") for piece in pieces)


@given(st.text(max_size=400), st.integers(1, 8), st.integers(1, 10))
@settings(deadline=None)
def test_pieces_lose_nothing_and_never_exceed_n0(query: str, count: int, min_tokens: int) -> None:
    pieces = split_query(query, count, min_tokens, 0.25)
    assert len(pieces) <= count
    assert all(pieces)
    assert "".join("".join(pieces).split()) == ("".join(query.split()) if count_tokens(query) else "")
    assert sum(map(count_tokens, pieces)) == count_tokens(query)


def test_log_avg_exp_with_equal_pieces_is_the_formula_of_the_spec() -> None:
    cosines = [[0.1, 0.5, 0.9], [0.3, 0.3, 0.3]]
    expected = [math.log(sum(math.exp(9 * c) for c in row) / 3) / 9 for row in cosines]
    assert log_avg_exp(np.array(cosines), [4, 4, 4], 9.0).tolist() == pytest.approx(expected, abs=1e-6)
    expected = [math.log((9 * math.exp(9 * 0.8) + 1) / 10) / 9]  # a piece counts by its share of the tokens
    assert log_avg_exp(np.array([[0.8, 0.0]]), [9, 1], 9.0).tolist() == pytest.approx(expected, abs=1e-6)


def test_cosines_are_those_of_scikit_learn_on_the_union() -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    first = ["the star is bright bright", "bread and tea", ""]
    second = ["tea tea tea ship", "star ship anchor"]
    pieces = ["bright star tea", "ship bread"]
    vectorizer = TfidfVectorizer(analyzer=terms, sublinear_tf=True)
    matrix = vectorizer.fit_transform(first + second)
    expected = (matrix @ vectorizer.transform(pieces).T).toarray()
    for terms_of in (TermIndex(first + second), TermIndex(first, TermIndex(second))):
        np.testing.assert_allclose(terms_of.cosines(pieces), expected, atol=1e-12)


def test_a_folder_is_read_in_the_order_of_names_without_what_is_hidden(tmp_path: Path, config: PipelineConfig) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()
    for name in ("b.md", "sub/a.txt", ".hidden.md", ".git/c.md", "d.png", "e.MD"):
        (tmp_path / name).write_text(f"# T\n\ntext of {name}", encoding="utf-8")
    memory = DocumentMemory.from_texts(read_folder(tmp_path), config.chunking)
    assert list(dict.fromkeys(item.doc_id for item in memory.chunks)) == ["b.md", "e.MD", "sub/a.txt"]
    assert all(item.source == "memory" and item.end > item.start for item in memory.chunks)
    (tmp_path / "bad.txt").write_bytes(b"caf\xe9 \xff\0")
    assert "bad.txt" not in read_folder(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetError, match="holds no document: allowed are"):
        read_folder(tmp_path / "empty")


def test_turns_are_documents_by_number_with_their_role(config: PipelineConfig) -> None:
    turns = [Turn(role="user", content="hello"), Turn(role="assistant", content=" "), Turn(role="user", content="you")]
    chunks = conversation_chunks(turns, config.chunking.conversation)
    assert [item.id for item in chunks] == ["conversation/0000#0", "conversation/0002#0"]
    assert chunks[0].metadata == {"role": "user"}
    assert {item.source for item in chunks} == {"conversation"}


def test_retrieval_ranks_conversation_and_memory_together(reach: Reach) -> None:
    sp = reach("retrieval")
    view = sp.views_by_stage["retrieval"]
    assert "bread.md#1" in view[:3]
    assert {chunk.source for chunk in sp.base_context_chunks} == {"conversation", "memory"}
    assert [chunk.id for chunk in sp.base_context_chunks] == view
    scores = [sp.extras["retrieval"]["scores"][chunk_id] for chunk_id in view]
    assert scores == sorted(scores, reverse=True)
    assert sp.final_selection_ids == []
    assert not any(chunk_id.startswith("stars") for chunk_id in view)


class GivenMemory(BaseMemory):
    def __init__(self, rows: Sequence[tuple[ContextChunk, float]]) -> None:
        self.rows = rows

    def search(self, pieces: Sequence[str], conversation: Sequence[ContextChunk], limit: int) -> Matches:
        cosines = np.array([[cosine] * len(pieces) for _, cosine in self.rows]).reshape(len(self.rows), len(pieces))
        return Matches([item for item, _ in self.rows], cosines)


def piece(doc_id: str, index: int = 0, source: str = "memory", text: str = "x") -> ContextChunk:
    return ContextChunk.model_validate(
        {"doc_id": doc_id, "chunk_index": index, "content": text, "source": source, "end": len(text)}
    )


def test_equal_scores_go_by_source_then_document_then_place(make_pipeline: Make, reach: Reach) -> None:
    rows = [(piece("b"), 0.5), (piece("a", 10), 0.5), (piece("a", 2), 0.5), (piece("z", 0, "conversation"), 0.5)]
    rows += [(piece("c"), 0.0), (piece("d"), -0.2)]  # nothing in common
    view = reach("retrieval", make_pipeline(memory=GivenMemory(rows))).views_by_stage["retrieval"]
    assert view == ["z#0", "a#2", "a#10", "b#0"]
    few = make_pipeline(PipelineConfig.load(n1_retr_max_candidates=3), GivenMemory(rows))
    assert reach("retrieval", few).views_by_stage["retrieval"] == view[:3]


def test_a_chunk_found_in_two_places_is_kept_once(make_pipeline: Make, reach: Reach) -> None:
    rows = [(piece("a", text="old"), 0.4), (piece("b"), 0.5), (piece("a", text="new"), 0.6)]
    sp = reach("retrieval", make_pipeline(memory=GivenMemory(rows)))
    assert sp.views_by_stage["retrieval"] == ["a#0", "b#0"]
    assert sp.chunks(["a#0"])[0].snippet == "new"


def test_finding_nothing_is_said(make_pipeline: Make, reach: Reach) -> None:
    empty = GivenMemory([])
    sp = reach("a5", make_pipeline(memory=empty))
    assert sp.extras["notices"][0]["stage"] == "Retrieval"
    assert "add documents" in sp.extras["notices"][0]["message"]


MakeContext = Callable[..., RAGtuneContext]

PROMPT = "## Task\nWhy does my honey bread stay moist?\n\n## Context\nIt rose overnight.\n\n## Format\nA ship's log"


def found(retriever: SuperPromptRetriever, context: RAGtuneContext, top_k: int = 100) -> list[tuple[str, float]]:
    return [(doc.id, doc.score) for doc in retriever.retrieve(context, top_k)]


def test_it_is_the_view_of_the_whole_pipeline(corpus: Corpus, make_context: MakeContext) -> None:
    texts = {doc.id: doc.content for doc in corpus}
    pipeline = build_pipeline(memory=chunk_memory(texts), rerank_stage=None)
    done = pipeline.run_all(SuperPrompt.raw(PROMPT))
    scores = done.extras["retrieval"]["scores"]
    expected = [(chunk_id.removesuffix("#0"), scores[chunk_id]) for chunk_id in done.views_by_stage["retrieval"]]
    assert found(SuperPromptRetriever(corpus), make_context(PROMPT)) == expected
    assert expected[0][0] == "bread-3"
    assert "ship-1" not in dict(expected)  # the format is no part of what is searched for
    few = SuperPromptRetriever(corpus, limits={"N1_RETR_MAX_CANDIDATES": 1, "N0_QUERY_PIECES": None})
    assert len(found(few, make_context(PROMPT))) == 1


def test_a_prompt_that_is_refused_finds_nothing_and_the_trace_says_why(
    corpus: Corpus, make_context: MakeContext
) -> None:
    context = make_context("Context: honey")
    assert SuperPromptRetriever(corpus).retrieve(context, 10) == []
    [event] = context.trace.find("refuse", "retriever")
    assert "no task" in event.details["reason"]
