"""Whether a claim holds, fails or cannot be told: what the comparisons prove."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import nct, t

from experiments.report.claims import POWER, Verdict, findings, side_columns

LINE = -0.005


def differences(mean: float, deviation: float, queries: int) -> np.ndarray:
    """Per-query differences with exactly that mean and deviation, shape (q,)."""
    noise = np.random.default_rng(queries).normal(size=queries)
    return mean + deviation * (noise - noise.mean()) / noise.std(ddof=1)


def comparisons(collection: str, *columns: np.ndarray, against: str = "fixed", line: float = LINE) -> pd.DataFrame:
    return pd.DataFrame(side_columns(np.column_stack(columns), line)).assign(collection=collection, against=against)


def test_the_same_difference_is_proven_refuted_or_open_by_its_spread_and_the_number_of_queries() -> None:
    cases = {
        "wide": (-0.02, 0.2, 25),
        "narrow": (-0.02, 0.01, 25),
        "long": (-0.02, 0.2, 4000),
        "level": (0.0, 0.02, 900),
    }
    found = findings(pd.concat([comparisons(name, differences(*case)) for name, case in cases.items()]))
    verdicts = {name: finding.verdict for name, finding in found.items()}
    assert verdicts == {"wide": Verdict.OPEN, "narrow": Verdict.FAILS, "long": Verdict.FAILS, "level": Verdict.HOLDS}


def test_one_bad_pair_among_many_is_what_chance_brings() -> None:
    bad = comparisons("bad", differences(-0.1, 0.2, 25))
    assert 0.01 < bad["p_below"].iloc[0] < 0.05
    assert findings(bad)["bad"].verdict is Verdict.FAILS
    others = [comparisons(f"c{i}", differences(LINE, 0.2, 25)) for i in range(9)]
    among = findings(pd.concat([bad, *others]))["bad"]
    assert among.verdict is Verdict.OPEN
    assert among.p == pytest.approx(10 * bad["p_below"].iloc[0])


def test_a_failure_that_was_picked_from_many_comparisons_pays_for_it_and_a_proof_does_not() -> None:
    fails, holds = differences(-0.1, 0.2, 25), differences(0.1, 0.2, 25)
    several = findings(comparisons("a", fails, *[differences(0.0, 0.2, 25)] * 3))["a"]
    assert several.p == pytest.approx(4 * side_columns(fails[:, None], LINE)["p_below"][0])
    every = findings(comparisons("a", holds, holds, holds, holds))["a"]
    assert every.verdict is Verdict.HOLDS
    assert every.p == pytest.approx(side_columns(holds[:, None], LINE)["p_above"][0])


def test_queries_that_differ_alike_prove_as_much_as_their_signs_and_a_single_one_tells_nothing() -> None:
    cases = {"level": (30, 0.0), "few": (2, LINE), "many": (30, LINE), "one": (1, LINE)}
    found = findings(pd.concat([comparisons(k, np.zeros(n), line=line) for k, (n, line) in cases.items()]))
    verdicts = {name: finding.verdict for name, finding in found.items()}
    assert verdicts == {"level": Verdict.OPEN, "few": Verdict.OPEN, "many": Verdict.HOLDS, "one": Verdict.OPEN}
    assert found["one"].needed == math.inf


def test_as_many_queries_as_are_asked_for_would_tell_with_that_probability() -> None:
    rows = comparisons("a", differences(-0.02, 0.2, 25), differences(0.0, 0.2, 25))
    queries = findings(rows)["a"].needed
    level = 0.05 / 2 / 2  # two-sided, two comparisons
    power = nct.cdf(t.ppf(level, queries - 1), queries - 1, (-0.02 - LINE) / 0.2 * math.sqrt(queries))
    assert power == pytest.approx(POWER, abs=0.005)
