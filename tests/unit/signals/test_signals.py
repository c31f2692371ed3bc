"""What is known of candidates for free."""

import math
from pathlib import Path

import pytest

from ragtune.core.errors import DatasetError, InputError
from ragtune.core.types import ScoredDocument
from ragtune.embedders.candidates import CandidateVectors
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.retrievers.dense import DenseRetriever
from ragtune.signals.lexical import LexicalSignal
from ragtune.signals.metadata import MetadataSignal
from ragtune.signals.table import TableSignal
from ragtune.signals.vectors import VectorsSignal
from ragtune.testing import make_context, small_corpus


@pytest.mark.parametrize(
    ("query", "content", "value"),
    [
        ("honey bread", "honey bread", (1.0 + 1.0 + (1.0 + 1.0 / math.log2(3)) / 2) / 3),
        ("honey bread", "bread honey", (1.0 + 0.0 + (1.0 + 1.0 / math.log2(3)) / 2) / 3),
        ("honey bread", "tea, honey", (0.5 + 0.0 + 1.0 / math.log2(3) / 2) / 3),
        ("honey", "honey honey", 1.0),
        ("honey bread", "ships", 0.0),
    ],
)
def test_value_is_the_mean_of_coverage_bigrams_and_early_match(query: str, content: str, value: float) -> None:
    found = LexicalSignal().values(make_context(query), [ScoredDocument(id="d", content=content)])
    assert found["d"] == pytest.approx(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "2020", True, [1], 10**400])
def test_what_is_no_finite_number_is_refused_by_field_and_document(value: object) -> None:
    document = ScoredDocument(id="d7", metadata={"year": value})
    with pytest.raises(InputError, match=r"document 'd7': year=.*: allowed is a number"):
        MetadataSignal("year").values(make_context(), [document])


DOCUMENTS = [ScoredDocument(id=doc_id) for doc_id in "ab"]


def test_low_numbers_speak_for_a_document_where_that_is_said(tmp_path: Path) -> None:
    file = tmp_path / "age.csv"
    file.write_text("doc_id,value\na,3\nc,9\n", encoding="utf-8")
    signal = TableSignal(file, by="document", higher_is_better=False)
    assert signal.values(make_context(), DOCUMENTS) == {"a": -3.0}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("doc_id,value\na,3\nb,inf\n", "age.csv:3: 'score' is 'inf': allowed is a finite number"),
        ("doc_id,value\na,old\n", "age.csv:2: 'score' is 'old': allowed is a finite number"),
        ("doc_id,value\na,3\na,4\n", "age.csv:3: document 'a' comes twice"),
        ("doc_id,year\na,3\n", "no column for 'score'"),
    ],
)
def test_a_bad_line_is_named(lines: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "age.csv"
    file.write_text(lines, encoding="utf-8")
    with pytest.raises(DatasetError, match=said):
        TableSignal(file, by="document")


def test_values_are_those_of_a_dense_first_stage() -> None:
    corpus, context = small_corpus(), make_context("honey in bread")
    found = DenseRetriever(corpus, TfidfEmbedder(corpus)).retrieve(context, 100)
    told = VectorsSignal(corpus, TfidfEmbedder).values(context, found)
    without_terms = "blank-1"
    assert told == pytest.approx({d.id: d.score for d in found if d.id != without_terms}, abs=2e-6)


def test_vectors_of_two_embedders_are_refused_by_their_lengths() -> None:
    signal = VectorsSignal(None, lambda _: CandidateVectors(embedder=HashingEmbedder(dims=8)))
    with pytest.raises(InputError, match="vectors have 2 numbers and the query's has 8"):
        signal.values(make_context("tea"), [ScoredDocument(id="a", metadata={"vector": [1.0, 2.0]})])
