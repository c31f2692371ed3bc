# ruff: noqa: RUF001
from itertools import pairwise
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtune.canonical.chunking import chunk
from ragtune.canonical.normalization import normalize
from ragtune.canonical.policies import ChunkPolicy
from ragtune.canonical.splitters.units import sentence_starts
from ragtune.canonical.types import Chunk, Segment, SourceDocument
from ragtune.core.errors import InputError
from ragtune.core.tokens import count_tokens

METHODS: tuple[Any, ...] = get_args(ChunkPolicy.model_fields["method"].annotation)

PIECES = st.sampled_from(
    [
        *["a.", "b!", "c?", "#", "##", "```", "~~~", "---", "===", "-", ">", "1.", "Dr.", "e.g.", "U.S.", "3.14"],
        *["\t", "\u00a0", "\u200f", "؟", "。", "！", "…", "’", "”", ")", " "],
        *["word ", "word ", "Sentence. ", "supercalifragilistic ", "\n\n", "\n", "\n# Heading\n", "\n```\n", "\n---\n"],
        *[
            "国际化。",
            "هل أنت هنا؟ ",
            "שלום ",
            "हिन्दी ",
            "👨\u200d👩\u200d👧",
            "e\u0301\u0323\u0327",
            "\x00",
            "\ud800",
            "\r\n",
        ],
    ]
)
TEXTS = st.one_of(st.lists(PIECES, max_size=60).map("".join), st.text(max_size=200))
POLICIES = st.builds(
    lambda method, limit, share: ChunkPolicy(method=method, max_tokens=limit, overlap_tokens=int(share * limit)),
    st.sampled_from(METHODS),
    st.integers(1, 30),
    st.sampled_from([0.0, 0.0, 0.2, 0.5, 0.99]),
)


def contents(text: str, method: str, max_tokens: int, overlap: int = 0) -> list[str]:
    policy = ChunkPolicy(method=method, max_tokens=max_tokens, overlap_tokens=overlap)  # type: ignore[arg-type]
    return [piece.content for piece in chunk(text, policy)]


@given(TEXTS, POLICIES)
def test_spans_cover_the_normalized_text_in_order_and_say_the_content(text: str, policy: ChunkPolicy) -> None:
    chunks = chunk(text, policy)
    normalized = normalize(text).text
    if not normalized.strip():
        assert chunks == []
        return
    assert [piece.chunk_index for piece in chunks] == list(range(len(chunks)))
    assert all(piece.content == normalized[piece.start : piece.end] for piece in chunks)
    assert (chunks[0].start, chunks[-1].end) == (0, len(normalized))
    for before, after in pairwise(chunks):
        assert before.start < after.start <= before.end < after.end
    if policy.overlap_tokens == 0:
        assert "".join(piece.content for piece in chunks) == normalized


@given(TEXTS, POLICIES)
def test_no_chunk_is_longer_than_allowed_and_none_is_blank(text: str, policy: ChunkPolicy) -> None:
    for piece in chunk(text, policy):
        assert 1 <= count_tokens(piece.content) <= policy.max_tokens


@given(TEXTS, POLICIES)
def test_the_same_text_gives_the_same_chunks_normalized_or_not(text: str, policy: ChunkPolicy) -> None:
    chunks = chunk(text, policy)
    assert chunk(text, policy) == chunks
    assert chunk(normalize(text), policy) == chunks
    assert chunk(normalize(text).text, policy) == chunks


@given(st.lists(TEXTS.map(lambda text: normalize(text).text), min_size=1, max_size=4), POLICIES)
def test_segments_give_the_chunks_of_their_joined_text(texts: list[str], policy: ChunkPolicy) -> None:
    segments = [Segment(text=text, metadata={"page": page}) for page, text in enumerate(texts)]
    source = normalize(segments)
    chunks = chunk(segments, policy)
    assert [piece.content for piece in chunks] == [piece.content for piece in chunk(source.text, policy)]
    for piece in chunks:
        first = piece.start + len(piece.content) - len(piece.content.lstrip())
        page = piece.metadata["page"]
        assert source.segments[page].start <= first < source.segments[page].end


@pytest.mark.parametrize("unit", [".", "国", "```\n", "a \n\n"])
def test_monotonous_texts_are_cut_all_the_same(unit: str) -> None:
    text = "x" + unit * 20_000
    for method in METHODS:
        chunks = chunk(text, ChunkPolicy(method=method, max_tokens=100, overlap_tokens=10))
        assert chunks[-1].end == len(normalize(text).text)
        assert max(count_tokens(piece.content) for piece in chunks) <= 100


def test_tokens_golden() -> None:
    text = "One two, three four. Five six seven eight."
    assert contents(text, "tokens", 4) == ["One two, three ", "four. Five six ", "seven eight."]
    assert contents("a b c d e f g", "tokens", 3, overlap=1) == ["a b c ", "c d e ", "e f g"]
    assert contents("a b c d e f g", "tokens", 3, overlap=2) == ["a b c ", "b c d ", "c d e ", "d e f ", "e f g"]


def test_windows_part_no_word_but_a_very_long_one_and_no_character_from_its_marks() -> None:
    assert contents("a transformation b", "tokens", 3) == ["a ", "transformation ", "b"]
    assert contents("supercalifragilistic", "tokens", 3) == ["supercalifragilist", "ic"]
    assert contents("国" * 60 + " 际", "tokens", 8) == ["国" * 48, "国" * 12 + " 际"]
    assert contents("q\u0323\u0307" * 4, "tokens", 5) == ["q\u0323\u0307"] * 4
    assert contents("q" + "\u0323" * 4, "tokens", 2) == ["q\u0323", "\u0323\u0323", "\u0323"]
    assert contents("👨\u200d👩\u200d👧" * 3, "tokens", 7) == ["👨\u200d👩\u200d👧"] * 3
    assert contents("👍🏽" * 6, "tokens", 3) == ["👍🏽"] * 6


def test_sentences_golden() -> None:
    text = "One two three. Four five! Six? Seven eight nine ten eleven twelve. End."
    seven = "Seven eight nine ten eleven twelve. "
    assert contents(text, "sentences", 7) == ["One two three. Four five! ", "Six? ", seven, "End."]
    overlapping = ["One two three. Four five! Six? ", f"Six? {seven}", "End."]
    assert contents(text, "sentences", 9, overlap=3) == overlapping
    long = ["Short. ", "word word word word ", "word word word ", "end. ", "Last."]
    assert contents("Short. " + "word " * 7 + "end. Last.", "sentences", 4) == long


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("####### seven\n\n    # code\n\n   # three spaces\nx", [[], ["three spaces"]]),
        ("---\ntitle: Front matter\n---\n\n# Real\nx", [[], ["Real"]]),
        ("~~~ `\n# in\n```\n~~~~\n# out\nx", [[], ["out"]]),
        ("``` a`b\n# not in a fence\nx", [[], ["not in a fence"]]),
        ("```\n# never closed\n\nx", [[]]),
        ("text\n\n---\n\nNo heading above, `---` breaks.\n\n***\nTitle\n===\nx", [[], ["Title"]]),
        ("### Deep\nx\n# Top\ny\n## Sub\nz", [["Deep"], ["Top"], ["Top", "Sub"]]),
        ("#\nx", [[""]]),
        ("# " + "long " * 100 + "\nx", [[("long " * 100)[:200].rstrip()]]),
    ],
)
def test_markdown_headings(text: str, titles: list[list[str]]) -> None:
    chunks = chunk(text, ChunkPolicy(method="markdown"))
    assert [piece.metadata["headings"] for piece in chunks] == titles


@pytest.mark.parametrize(
    "marked",
    [
        "It rose to 3.14 in v2.0.1 at www.example.org today.| Then it fell.",
        "Dr. Smith, J. R. Doe et al. wrote it, e.g. in the U.S. paper.| See Fig. 3, No. 5, etc. and more.| End.",
        "She sells shells, etc.| The end.",
        "“Really?” she asked.| “Yes.”| He left…| Then came back... slowly.",
        "What?!| No (yes.)| Go.",
        "all lower case .| as in old collections .| third",
        "他来了。|真的吗？|「好。」|再见！|OK．|値は３．１４です。",
        "هل أنت هنا؟\u200f| نعم.| یہ ہے۔| ہاں",
        "यह है।| वह है॥| ठीक",
        "A heading\n\n|A hard-wrapped\nsentence.| Next:\n|- one\n|- two\n|1. three\n|2) four\n|# five",
        "In 1995.| It was.\n|1. First point\n   |12. Same",
        "",
        "  \n\n  ",
    ],
)
def test_where_sentences_end(marked: str) -> None:
    """``|`` stands at the end of a sentence, before the white space, which belongs to it."""
    text = marked.replace("|", "")
    expected, length = [], 0
    for piece in marked.split("|")[:-1]:
        length += len(piece)
        expected.append(length + len(text[length:]) - len(text[length:].lstrip()))
    assert list(sentence_starts(text)) == expected


def test_chunks_carry_id_sorted_tags_and_metadata() -> None:
    (piece,) = chunk("Text.", doc_id="d", tags=["b", "a", "b"], metadata={"k": [1]})
    assert piece == Chunk(
        doc_id="d", chunk_index=0, content="Text.", tags=("a", "b"), metadata={"k": [1]}, start=0, end=5
    )


def test_a_source_document_brings_its_own_and_segments_keys_win() -> None:
    pages = (Segment(text="One.", metadata={"page": 1}), Segment(text=""), Segment(text=" Two.", metadata={"page": 2}))
    document = SourceDocument(doc_id="d", content=pages, tags=("t",), metadata={"page": 0, "title": "T"})
    first, second = chunk(document, ChunkPolicy(max_tokens=2))
    assert (first.content, second.content) == ("One.\n\n\n\n ", "Two.")
    assert (first.metadata, second.metadata) == ({"page": 1, "title": "T"}, {"page": 2, "title": "T"})
    assert second.tags == ("t",)
    with pytest.raises(InputError, match="SourceDocument"):
        chunk(document, doc_id="other")


@pytest.mark.parametrize(
    "arguments",
    [
        {"doc_id": "a\x00"},
        {"tags": "abc"},
        {"metadata": {"x": "\x00"}},
    ],
)
def test_what_cannot_be_stored_is_refused(arguments: Any) -> None:
    with pytest.raises(InputError, match="allowed"):
        chunk("text", **arguments)
