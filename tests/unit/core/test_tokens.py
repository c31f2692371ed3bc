from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtune.core.tokens import count_tokens, token_spans

TEXTS = [
    "High blood pressure strains the heart and the vessels; regular exercise lowers it, so does a diet low in salt.",
    "The treaty of 1648 ended a war of thirty years, and left the empire's three hundred states nearly sovereign.",
    "Photosynthesis converts light energy into chemical energy: chloroplasts split water and release oxygen.",
    "To tie a bowline, make a small loop, bring the end up through it, round the standing part and down again.",
    "In 2019 the committee (of 12 members) met 4 times; its report, published in May, ran to 318 pages.",
]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("   \n\t", 0),
        ("sixsix", 1),
        ("sevenxx", 2),
        ("don't stop!", 5),
        ("photosynthesis", 3),
        ("naïve café", 2),
        ("茶", 1),
        ("...", 3),
    ],
)
def test_counts_pieces_of_six_word_characters_and_each_mark(text, tokens):
    assert count_tokens(text) == tokens


@given(st.text(st.sampled_from("abcdefg_09 .,-\n\x00\x1c\x85é")))
def test_a_text_of_ascii_is_counted_by_the_same_rule(text):
    assert count_tokens(text) == len(list(token_spans(text)))


@pytest.mark.parametrize("text", TEXTS)
def test_comes_within_a_quarter_of_a_real_subword_tokenizer(text, minilm):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(minilm) / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    real = len(tokenizer.encode(text, add_special_tokens=False).ids)
    assert count_tokens(text) == pytest.approx(real, rel=0.25)
