from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtune.canonical.compression import compress
from ragtune.canonical.policies import CompressPolicy
from ragtune.canonical.types import Candidate
from ragtune.core.tokens import count_tokens

SEA = "The crew slept. The anchor held the ship. The sea was calm. Bread was baked. The anchor chain broke."


def candidates(*texts: str) -> list[Candidate]:
    return [Candidate(doc_id=f"d{i}", chunk_index=i, content=text, score=1.0 / (i + 1)) for i, text in enumerate(texts)]


def texts_of(excerpts: Sequence[dict[str, Any]]) -> list[str]:
    return [excerpt["text"] for excerpt in excerpts]


WORDS = st.sampled_from(
    ["anchor ", "ship. ", "bread? ", "the ", "Sea! ", "\n\n", "国际。", "هنا؟ ", "x\u0301 ", "a" * 40]
)
TEXTS = st.lists(st.lists(WORDS, max_size=25).map("".join) | st.text(max_size=50), max_size=4)
POLICIES = st.builds(
    CompressPolicy,
    method=st.sampled_from(["windows", "spans"]),
    window=st.integers(0, 3),
    max_tokens=st.integers(1, 40),
)


@given(st.sampled_from(["anchor ship", "the", "", "bread 国际", "nothing"]), TEXTS, POLICIES)
def test_excerpts_are_pieces_of_their_candidates_in_order_and_within_the_budget(
    query: str, texts: list[str], policy: CompressPolicy
) -> None:
    found = candidates(*texts)
    excerpts = compress(query, found, policy)
    assert sum(excerpt["tokens"] for excerpt in excerpts) <= policy.max_tokens
    for excerpt in excerpts:
        candidate = found[excerpt["chunk_index"]]
        assert excerpt["doc_id"] == candidate.doc_id
        assert excerpt["text"] == candidate.content[excerpt["start"] : excerpt["end"]]
        assert excerpt["text"].strip() == excerpt["text"] != ""
        assert excerpt["tokens"] == count_tokens(excerpt["text"])
        assert 0.0 <= excerpt["score"] <= 1.0 + 1e-12
    places = [(excerpt["chunk_index"], excerpt["start"]) for excerpt in excerpts]
    assert places == sorted(set(places))
    ends = {}
    for excerpt in excerpts:
        assert ends.get(excerpt["chunk_index"], -1) < excerpt["start"]
        ends[excerpt["chunk_index"]] = excerpt["end"]
    assert compress(query, found, policy) == excerpts


def test_a_window_is_the_best_sentence_with_its_neighbours() -> None:
    (excerpt,) = compress("anchors of ships", candidates(SEA))
    assert excerpt["text"] == "The crew slept. The anchor held the ship. The sea was calm."
    assert (excerpt["start"], excerpt["end"], excerpt["tokens"]) == (0, 59, 15)
    assert excerpt["score"] == pytest.approx(1.0)


def test_spans_are_all_matching_sentences_those_that_touch_in_one() -> None:
    bare = compress("anchor ship", candidates(SEA), CompressPolicy(method="spans", window=0))
    assert texts_of(bare) == ["The anchor held the ship.", "The anchor chain broke."]
    wide = compress("anchor ship", candidates(SEA), CompressPolicy(method="spans", window=1))
    assert texts_of(wide) == [SEA]
    assert bare[0]["score"] > bare[1]["score"] > 0.0


def test_the_best_choose_first_and_the_candidates_order_stays() -> None:
    found = candidates("Nothing here.", "A ship sailed.", "A ship with an anchor.")
    policy = CompressPolicy(window=0, max_tokens=11)
    assert texts_of(compress("ship anchor", found, policy)) == ["A ship sailed.", "A ship with an anchor."]
    assert texts_of(compress("ship anchor", found, CompressPolicy(window=0, max_tokens=6))) == [
        "A ship with an anchor."
    ]


def test_a_sentence_longer_than_the_budget_is_cut() -> None:
    text = "one two three four five ship seven eight nine ten"
    assert texts_of(compress("ship", candidates(text), CompressPolicy(max_tokens=4))) == ["five ship seven eight"]


def test_where_nothing_matches_windows_are_the_leads_and_spans_are_none() -> None:
    found = candidates("First. Second. Third.", "")
    (lead,) = compress("unrelated", found, CompressPolicy(window=0))
    assert (lead["text"], lead["score"]) == ("First.", 0.0)
    assert compress("unrelated", found, CompressPolicy(method="spans")) == []
    assert texts_of(compress("ship", candidates("\n\n  A ship.\n"))) == ["A ship."]
    assert texts_of(compress("of the", found, CompressPolicy(window=0))) == ["First."]
