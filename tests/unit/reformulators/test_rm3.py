from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import ragtune.reformulators.rm3 as rm3
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus, Document
from ragtune.data.text import terms
from ragtune.reformulators.rm3 import RM3Reformulator, term_statistics

MakeContext = Callable[..., RAGtuneContext]

TEXTS = ["jaguar cats hunting prey", "jaguar cat prey", "jaguar cars", "river boat", "river boats", "cats", "mountain"]


@pytest.fixture
def zoo() -> Corpus:
    return Corpus(Document(id=f"d{i}", text=text) for i, text in enumerate(TEXTS))


def _found(corpus: Corpus, **scores: float) -> list[ScoredDocument]:
    return [corpus.scored(doc_id, score) for doc_id, score in scores.items()]


def _counts(rewrites: list[str]) -> Counter[str]:
    (rewrite,) = rewrites
    return Counter(rewrite.split())


def test_weights_are_the_interpolated_relevance_model(zoo: Corpus, make_context: MakeContext) -> None:
    # P(w|R): d0 (weight 3/4) is jaguar, cat, prey after min_df=2 drops hunting; d1 (1/4) is the same three.
    model = RM3Reformulator(zoo, fb_docs=2, fb_terms=3, original_query_weight=0.4, max_df_ratio=1.0, resolution=1000)
    counts = _counts(model.generate(make_context("jaguar"), _found(zoo, d0=3.0, d1=1.0)))
    assert counts == {"jaguar": 600, "cats": 200, "prey": 200}


def test_terms_outside_the_document_frequency_limits_are_left_out(zoo: Corpus, make_context: MakeContext) -> None:
    context, found = make_context("animals"), _found(zoo, d0=1.0, d1=1.0)
    rare_too = RM3Reformulator(zoo, min_df=1, max_df_ratio=1.0).generate(context, found)
    assert set(_counts(rare_too)) == {"animals", "jaguar", "cats", "prey", "hunting"}
    common_too = RM3Reformulator(zoo, min_df=2, max_df_ratio=1.0).generate(context, found)
    assert set(_counts(common_too)) == {"animals", "jaguar", "cats", "prey"}
    neither = RM3Reformulator(zoo, min_df=2, max_df_ratio=2 / 7).generate(context, found)
    assert set(_counts(neither)) == {"animals", "prey"}


def test_terms_are_written_as_the_commonest_word_that_stems_to_them(zoo: Corpus, corpus: Corpus) -> None:
    assert term_statistics(TEXTS)["cat"][1] == "cats"
    assert term_statistics(TEXTS)["boat"][1] == "boat"
    for term, (_, word) in term_statistics(corpus.contents).items():
        assert terms(word) == [term]


def test_the_users_own_words_stay_as_they_were_typed(zoo: Corpus, make_context: MakeContext) -> None:
    model = RM3Reformulator(zoo, max_df_ratio=1.0)
    words = _counts(model.generate(make_context("Boating cats"), _found(zoo, d3=1.0, d4=1.0)))
    assert set(words) == {"boating", "cats", "river"}


@pytest.mark.parametrize("scores", [(0.0, 0.0), (-5.0, -5.0), (2.0, 2.0)])
def test_equal_scores_weigh_equally_whatever_their_sign(
    zoo: Corpus, make_context: MakeContext, scores: tuple[float, float]
) -> None:
    model = RM3Reformulator(zoo, original_query_weight=0.0, min_df=1, max_df_ratio=1.0)
    counts = _counts(model.generate(make_context("jaguar"), _found(zoo, d5=scores[0], d6=scores[1])))
    assert counts["cats"] == counts["mountain"] == 50


def test_log_probabilities_are_shifted_to_weights(zoo: Corpus, make_context: MakeContext) -> None:
    model = RM3Reformulator(zoo, original_query_weight=0.0, min_df=1, max_df_ratio=1.0)
    counts = _counts(model.generate(make_context("jaguar"), _found(zoo, d5=-1.0, d6=-3.0)))
    assert counts["cats"] == 100
    assert "mountain" not in counts


def test_statistics_are_made_once_for_a_corpus(
    zoo: Corpus, private_cache: Path, make_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [RM3Reformulator(zoo, max_df_ratio=1.0).generate(make_context("cat"), _found(zoo, d0=1.0))]
    monkeypatch.setattr(rm3, "term_statistics", None)
    answers.append(RM3Reformulator(zoo, max_df_ratio=1.0).generate(make_context("cat"), _found(zoo, d0=1.0)))
    assert answers[0] == answers[1] != []
