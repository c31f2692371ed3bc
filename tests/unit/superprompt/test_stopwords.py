from __future__ import annotations

import pytest

from ragtune.superprompt.reading.stopwords import LANGUAGES, content_terms, language_of, stopwords


@pytest.mark.parametrize(
    ("text", "language", "left"),
    [
        ("why is my bread so dense", "english", ["bread", "dens"]),
        ("what happens when a star dies", "english", ["happen", "star", "die"]),
        ("cant we deduct it?", "english", ["deduct"]),
        ("Warum ist mein Brot so dicht?", "german", ["brot", "dicht"]),
        ("pourquoi le ciel est-il bleu", "french", ["ciel", "bleu"]),
        ("shin splints", "english", ["shin", "splint"]),
    ],
)
def test_what_is_left_says_what_a_text_is_about(text: str, language: str, left: list[str]) -> None:
    assert language_of(text) == language
    assert content_terms(text) == left


def test_a_text_of_stopwords_alone_keeps_them() -> None:
    assert content_terms("who are you") == ["who", "you"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_list_is_there(language: str) -> None:
    assert len(stopwords(language)) > 90
