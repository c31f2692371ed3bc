from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from ragtune.core.arguments import as_list, check_choice, check_count, check_flag, check_member, check_number
from ragtune.core.errors import ConfigError
from ragtune.core.pool.ordering import Ordering


@pytest.mark.parametrize("bad", [math.nan, math.inf, -0.1, 1.1, "0.5", None, True])
def test_a_number_out_of_range_is_refused_by_quoting_it(bad: object) -> None:
    with pytest.raises(ConfigError) as error:
        check_number("b", bad, 0.0, 1.0)
    assert f"b={bad!r}: allowed is a number in [0, 1]" in str(error.value)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "3", None, True])
def test_a_count_below_the_minimum_is_refused_by_quoting_it(bad: object) -> None:
    with pytest.raises(ConfigError) as error:
        check_count("depth", bad, low=1)
    assert f"depth={bad!r}: allowed is a whole number >= 1" in str(error.value)


def test_a_choice_that_is_not_offered_is_refused_with_the_offer() -> None:
    with pytest.raises(ConfigError, match="method='bm26': allowed are lucene, atire"):
        check_choice("method", "bm26", ["lucene", "atire"])


@pytest.mark.parametrize("bad", ["maybe", "false", 0, 1, None])
def test_a_flag_that_is_neither_is_refused_by_quoting_it(bad: object) -> None:
    with pytest.raises(ConfigError) as error:
        check_flag("witness", bad)
    assert f"witness={bad!r}: allowed are true and false" in str(error.value)


def test_good_values_pass() -> None:
    assert check_flag("f", False) is False
    assert check_number("b", 1, 0.0, 1.0) == 1.0
    assert check_count("n", 3) == 3
    assert check_choice("m", "x", "xy") == "x"


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
