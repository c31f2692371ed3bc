"""Words and terms, of scripts with and without blanks between words."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import RAGtuneContext
from ragtune.data.corpus import Corpus, Document
from ragtune.data.text import STOPWORDS, Stems, plain_words, term_of, terms, words_and_terms
from ragtune.reformulators.rm3 import RM3Reformulator
from ragtune.retrievers.bm25 import BM25Retriever
from ragtune.retrievers.rank_bm25 import RankBM25Retriever
from ragtune.signals.lexical import LexicalSignal

TEXTS = {
    "chinese": "蛋白质设计方法发明者获得诺贝尔化学奖。",
    "japanese": "東京の天気は晴れです。",
    "thai": "ภาษาไทยไม่เว้นวรรคระหว่างคำ",
    "korean": "서울의 날씨는 맑습니다",
    "english": "the weather is good for a walk",
}
QUERIES = {
    "chinese": "诺贝尔奖得主",
    "japanese": "東京",
    "thai": "ไทย",
    "korean": "날씨",
    "english": "weather",
}


def context(query: str) -> RAGtuneContext:
    return RAGtuneContext(query=query, query_id="q", tracker=CostBudget.unlimited().create_tracker())


@pytest.mark.parametrize("language", QUERIES)
@pytest.mark.parametrize("kind", [BM25Retriever, RankBM25Retriever])
def test_a_word_within_a_text_without_blanks_is_found(kind: type, language: str) -> None:
    corpus = Corpus([Document(id=name, text=text) for name, text in TEXTS.items()])
    retriever = kind(corpus, cache_dir=None) if kind is BM25Retriever else kind(corpus)
    found = retriever.retrieve(context(QUERIES[language]), 10)
    assert [document.id for document in found] == [language]
    assert LexicalSignal().values(context(QUERIES[language]), found)[language] > 0.0


def test_feedback_terms_can_be_searched_for() -> None:
    corpus = Corpus([Document(id=name, text=text) for name, text in TEXTS.items()])
    asked = context(QUERIES["chinese"])
    found = BM25Retriever(corpus, cache_dir=None).retrieve(asked, 3)
    (rewrite,) = RM3Reformulator(corpus, min_df=1, cache_dir=None).generate(asked, found)
    assert set(terms(rewrite)) > set(terms(QUERIES["chinese"]))
    assert set(terms(rewrite)) <= set(terms(TEXTS["chinese"])) | set(terms(QUERIES["chinese"]))


@pytest.mark.parametrize(
    ("text", "words", "found"),
    [
        ("AI模型 and \uff21\uff30\uff29, ｶﾅ 茶 Models", "ai 模型 api カナ 茶 models", "ai 模型 api カナ 茶 model"),
        ("Running the runs", "running runs", "run run"),
        ("Cafés Straße", "cafés straße", "café straße"),
        ("The Retrievers were A B 42!", "retrievers were 42", "retriev were 42"),
        ("?! -- a the of and", "", ""),
    ],
)
def test_words_come_in_order_with_their_stems_and_without_stopwords(text: str, words: str, found: str) -> None:
    assert words_and_terms(text) == list(zip(words.split(), found.split(), strict=True))
    assert terms(text) == found.split()


def test_marks_stay_with_their_character() -> None:
    assert terms("น้ําใจ") == ["น้ํา", "าใ", "ใจ"]


def test_stopwords_are_lucenes_33() -> None:
    assert len(STOPWORDS) == 33


def test_the_stems_kept_are_bounded_and_stay_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtune.data.text._MOST_WORDS", 3)
    stems = Stems()
    for word in ("running", "cats", "dogs", "the", "retrieval"):
        assert stems[word] == term_of(word)
        assert len(stems) <= 3


@given(st.text(alphabet=st.characters(max_codepoint=0x2265), max_size=40))
def test_words_of_latin_texts_are_those_of_the_pattern(text: str) -> None:
    assert [word for word in plain_words(text) if len(word) > 1] == re.findall(r"\b\w\w+\b", text.lower())
