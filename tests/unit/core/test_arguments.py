import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ragtune import ScoredDocument
from ragtune.core import interfaces
from ragtune.core.arguments import as_list, check_choice, check_count, check_flag, check_member, check_number
from ragtune.core.component import declare_files, files_of
from ragtune.core.errors import ConfigError
from ragtune.core.pool.ordering import Ordering
from ragtune.core.tokens import count_each, count_tokens, token_edges, token_spans
from ragtune.core.types import CostObject

NUMBER, COUNT, FLAG = "a number in [0, 1]", "a whole number >= 1", "true and false"


@pytest.mark.parametrize(
    ("check", "allowed", "bad"),
    [
        *((partial(check_number, low=0.0, high=1.0), NUMBER, bad) for bad in (math.nan, -0.1, 1.1, "0.5", None, True)),
        *((partial(check_count, low=1), COUNT, bad) for bad in (0, 1.5, "3", None, True)),
        *((check_flag, FLAG, bad) for bad in ("maybe", "false", 0, None)),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_by_quoting_it(
    check: Callable[[str, object], object], allowed: str, bad: object
) -> None:
    with pytest.raises(ConfigError) as error:
        check("option", bad)
    assert re.search(rf"option={re.escape(repr(bad))}: allowed (is|are) {re.escape(allowed)}", str(error.value))


def test_a_choice_that_is_not_offered_is_refused_with_the_offer() -> None:
    with pytest.raises(ConfigError, match="method='bm26': allowed are lucene, atire"):
        check_choice("method", "bm26", ["lucene", "atire"])


def test_numpy_scalars_are_the_values_that_they_are() -> None:
    found = [check_count("n", np.int64(3)), check_number("x", np.float32(0.5)), check_flag("f", np.True_)]
    assert [(value, type(value)) for value in found] == [(3, int), (0.5, float), (True, bool)]
    assert as_list(pd.Series([1, None], dtype="Int64", index=[1, 0])) == [1, None]


@pytest.mark.parametrize("bad", [np.True_, np.float64(2.0), np.array([2]), pd.NA, pd.Series([2])])
def test_other_values_of_numpy_and_pandas_are_no_counts(bad: object) -> None:
    with pytest.raises(ConfigError, match=r"^depth=.*: allowed is a whole number >= 1$"):
        check_count("depth", bad, low=1)


def test_what_is_no_member_is_quoted_shortly() -> None:
    with pytest.raises(ConfigError) as caught:
        check_member(Ordering, "ordering", "x" * 10**5)
    assert len(str(caught.value)) < 200


def test_documents_are_frozen_and_hashable():
    doc = ScoredDocument(id="d", metadata={"title": "t"}, sources={"bm25": 1.0})
    with pytest.raises(ValidationError):
        doc.score = 1.0
    assert doc in {doc}
    assert len({doc, ScoredDocument(id="d"), ScoredDocument(id="e")}) == 3


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1])
@pytest.mark.parametrize("unit", ["tokens", "latency_ms"])
def test_a_cost_is_always_finite_and_never_negative(unit, bad):
    with pytest.raises(ValidationError, match=unit):
        CostObject(**{unit: bad})


INTERFACES = [kind for kind in vars(interfaces).values() if getattr(kind, "__module__", "") == interfaces.__name__]


@pytest.mark.parametrize("interface", INTERFACES, ids=lambda interface: interface.__name__)
def test_every_interface_says_in_one_line_what_state_may_be_kept_and_has_at_most_five_members(interface):
    said = [line.strip() for line in interface.__doc__.splitlines() if line.strip().startswith("State:")]
    assert len(said) == 1
    assert said[0].endswith(".")
    members = {name for name in dir(interface) if not name.startswith("_")}
    assert 1 <= len(members) <= 5, members


def test_facts_that_are_no_facts_are_refused_by_the_controller(fakes):
    reranker = fakes.Reranker()
    reranker.facts = {"compares": True}
    with pytest.raises(ConfigError, match=r"facts=.*allowed is a RerankerFacts"):
        fakes.controller(reranker=reranker)


def test_files_are_declared_by_names_of_arguments_and_inherited_from_all_bases():
    @declare_files(reads=["a"])
    class One:
        def __init__(self, a): ...

    @declare_files(keeps=["b"])
    class Two:
        def __init__(self, b): ...

    @declare_files(reads=["c"])
    class Both(One, Two):
        def __init__(self, a, b, c): ...

    assert (files_of(Both).reads, files_of(Both).keeps) == ({"a", "c"}, {"b", "cache_dir"})


PACKAGE = Path(interfaces.__file__).parents[1]


def test_no_module_of_the_core_or_the_llm_layer_is_too_long_for_one_sitting():
    modules = [*(PACKAGE / "core").rglob("*.py"), *(PACKAGE / "llm").rglob("*.py")]
    assert [file.name for file in modules if len(file.read_text(encoding="utf-8").splitlines()) > 350] == []


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


@given(st.lists(st.text(st.sampled_from("abcdefg_09 .,-\n\x00\x1c\x85é²茶\u200c"))))
def test_texts_are_counted_by_the_same_rule_alone_and_together(texts):
    spans = [list(token_spans(text)) for text in texts]
    assert [list(zip(*token_edges(text), strict=True)) for text in texts] == spans
    assert [count_tokens(text) for text in texts] == count_each(texts) == list(map(len, spans))
