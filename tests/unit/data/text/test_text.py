from __future__ import annotations

import pytest

from ragtune.data.text import STOPWORDS, analysis, terms, words_and_terms


def test_terms_are_lower_case_stems_without_stopwords() -> None:
    assert terms("The Retrievers were retrieving for A B 42!") == ["retriev", "were", "retriev", "42"]


def test_words_come_with_their_terms() -> None:
    assert words_and_terms("Running the runs") == [("running", "run"), ("runs", "run")]


def test_a_text_without_words_has_no_terms() -> None:
    assert terms("") == terms("?! -- a") == terms("the of and") == []


def test_stopwords_are_lucenes_33() -> None:
    assert len(STOPWORDS) == 33


def test_words_outside_ascii_are_words() -> None:
    assert words_and_terms("Cafés Straße") == [("cafés", "café"), ("straße", "straße")]


def test_the_stems_kept_are_bounded_and_stay_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "_MOST_WORDS", 3)
    stems = analysis.Stems()
    for word in ("running", "cats", "dogs", "the", "retrieval"):
        assert stems[word] == analysis._stems()[word]
        assert len(stems) <= 3
