"""What a study is asked: its claims, and whether comparisons prove or refute them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from experiments.report.claims import ClaimVerdict, Held, claims_page, findings, held, side_columns
from experiments.report.families import ALL, choice_page, families_table
from experiments.report.study import Cell, Claim, PolicyChoice, Study, StudyCollection, StudyPolicy
from ragtune.core.errors import ConfigError
from ragtune.core.units import CALLS, UNITS

KINDS = {"fixed": "baseline", "gar": "peer", "default": "ours", "bold": "ours", "shy": "ours"}
CHOICE = PolicyChoice("default", [10, 20])
Quality = Mapping[str, tuple[float, float]]


def collection(
    name: str, quality: Quality, group: str = "", docs: Mapping[str, int] | None = None, family: str = ""
) -> StudyCollection:
    """40 queries with a little noise around the given quality at 10 and at 20 documents."""
    noise = np.random.default_rng(len(name)).normal(0, 0.01, size=40)
    cells = {}
    for policy, means in quality.items():
        for budget, mean in zip((10, 20), means, strict=True):
            charged = np.zeros((40, len(UNITS)))
            charged[:, :2] = (docs or {}).get(policy, budget)
            values = (mean + np.roll(noise, budget) - noise.mean())[:, None]
            cells[policy, str(budget)] = Cell(values, charged, ["x"] * 40)
    queries = [f"q{i}" for i in range(40)]
    lines = dict.fromkeys(quality)
    made = StudyCollection(name, queries, cells, lines, np.zeros(1), 0.0, dataset=name)  # type: ignore[arg-type]
    return replace(made, group=group or name, family=family or group or name)


def study(*collections: StudyCollection) -> Study:
    names = dict.fromkeys(policy for c in collections for policy, _ in c.cells)
    return Study(
        name="t",
        command="c",
        git_sha="abc",
        collections=collections,
        policies=[StudyPolicy(name, f"the {name}", KINDS[name]) for name in names],
        reference="fixed",
        columns=["10", "20"],
        measures=["nDCG@10"],
        target_label="all",
        resamples=200,
        permutations=499,
        level=0.95,
        seed=0,
    )


def qualities(default: float, bold: float, shy: float = 0.4) -> Quality:
    """The same at both budgets; fixed depth is at .4."""
    return {"fixed": (0.4, 0.4), "default": (default, default), "bold": (bold, bold), "shy": (shy, shy)}


def answer(claim: Claim, *collections: StudyCollection) -> Held:
    found = held(study(*collections), claim)
    assert found is not None
    return found


def chosen(page: str) -> dict[str, list[str]]:
    """The rows of the first table of a page of choices, by family."""
    rows = [line.strip("| ").split(" | ") for line in page.split("## ")[1].splitlines() if line.startswith("| ")]
    return {family: cells for family, *cells in rows[1:]}


def test_a_variant_that_is_better_everywhere_is_chosen_and_credited_with_what_it_brings() -> None:
    page = choice_page(study(*(collection(name, qualities(0.5, 0.53)) for name in "abc")), CHOICE)
    assert "**Take the bold.** A family gets +0.0300 [+0.0300, +0.0300] nDCG@10 more than with the default" in page
    assert "choose the bold; so do 3 of\nthe 3 choices" in page
    assert [row[:3] for row in chosen(page).values()] == [["the bold", "+0.1300", "+0.1000"]] * 3
    assert "| the bold | +0.1300 | +0.1300 | +0.1300 | +0.1300 |" in page
    equal = choice_page(study(*(collection(name, qualities(0.5, 0.5, 0.5)) for name in "ab")), CHOICE)
    assert "**Keep the default.** A family gets +0.0000" in equal


def test_a_variant_that_wins_on_one_family_alone_is_not_credited_on_it() -> None:
    families = {"a": qualities(0.5, 0.9), "b": qualities(0.5, 0.45), "c": qualities(0.5, 0.45)}
    page = choice_page(study(*(collection(name, quality) for name, quality in families.items())), CHOICE)
    assert chosen(page)["a"] == ["the default", "+0.1000", "+0.1000", "+0.0000 [+0.0000, +0.0000]"]
    assert "All families together choose the bold" in page
    assert f"**Keep the default.** A family gets {(0.0 - 0.05 - 0.05) / 3:+.4f} [" in page


def test_a_family_counts_once_however_many_pairs_and_collections_it_has_and_a_collection_once_within_it() -> None:
    many = [collection(f"a{i}", qualities(0.5, 0.7), group="a", family="f") for i in range(4)]
    many.append(collection("b", qualities(0.5, 0.5), family="f"))
    few = [collection("c", qualities(0.5, 0.45)), collection("d", qualities(0.5, 0.4))]
    page = choice_page(study(*many, *few), CHOICE)
    assert list(chosen(page)) == ["f", "c", "d"]
    assert "| policy | f | c | d | mean |" in page
    assert "| the bold | +0.2000 | +0.0500 | +0.0000 | +0.0833 |" in page
    claim = Claim("c", "bold", ["fixed"], [10, 20])
    assert answer(claim, *many, *few).mean == pytest.approx((0.2 + 0.05 + 0.0) / 3)
    means = families_table(study(*many, *few)).set_index(["family", "policy", "budget"])["nDCG@10"]
    assert means["f", "bold", "10"] == pytest.approx(0.6)
    assert means[ALL, "bold", "20"] == pytest.approx((0.6 + 0.45 + 0.4) / 3)


def test_a_claim_fails_where_the_policy_is_below_by_more_than_the_margin_and_the_worst_comes_first() -> None:
    claim = Claim("c", "default", ["fixed", "gar"], [10, 20], margin=0.02)
    found = answer(
        claim,
        collection("good", {"fixed": (0.4, 0.5), "gar": (0.4, 0.5), "default": (0.5, 0.6)}),
        collection("bad", {"fixed": (0.4, 0.5), "gar": (0.4, 0.55), "default": (0.5, 0.52)}),
        collection("near", {"fixed": (0.4, 0.5), "gar": (0.4, 0.5), "default": (0.5, 0.49)}),
        collection("worse", {"fixed": (0.6, 0.5), "gar": (0.4, 0.5), "default": (0.5, 0.6)}),
    )
    assert found.short == ["worse", "bad"]
    assert found.order == ["worse", "bad", "near", "good"]
    bad = found.rows[found.rows["collection"] == "bad"].set_index(["against", "budget"])
    assert bad["difference"]["gar", 20] == pytest.approx(-0.03)
    assert [bad[end]["gar", 20] for end in ("low", "high")] == pytest.approx([-0.03] * 2), "the queries differ alike"
    assert bad["holds"].tolist() == [True, True, True, False]


def test_more_budget_is_held_against_every_smaller_one_so_that_none_is_picked_by_its_luck() -> None:
    small = collection("a", {"default": (0.5, 0.48)})
    cells = {**small.cells, ("default", "30"): small.cells["default", "10"]}
    claim = Claim("c", "default", ["default"], [10, 20, 30], "fewer")
    rows = answer(claim, replace(small, cells=cells)).rows
    assert rows[["budget", "depth"]].to_numpy().tolist() == [[20, 10], [30, 10], [30, 20]]


def test_a_stopping_rule_is_held_against_a_flat_budget_of_as_many_documents() -> None:
    claim = Claim("c", "shy", ["default"], [20], "spent")
    found = answer(claim, collection("a", {"default": (0.4, 0.6), "shy": (0.5, 0.55)}, docs={"shy": 15}))
    assert found.rows["depth"].tolist() == [15.0]
    assert found.rows["difference"].tolist() == pytest.approx([0.05])


def test_signals_are_held_against_the_same_pair_without_them() -> None:
    plain = collection("a", {"fixed": (0.4, 0.5), "default": (0.5, 0.5)})
    signals = replace(collection("a+s", {"fixed": (0.6, 0.7), "default": (0.6, 0.7)}), plain="a")
    claim = Claim("c", "default", ["fixed"], [10], 20, plain=True)
    found = answer(claim, plain, signals)
    assert found.order == ["a+s"]
    assert found.rows["difference"].tolist() == pytest.approx([0.1])
    with pytest.raises(ConfigError, match="'a\\+s' and 'a' are compared, and judged on other queries"):
        held(study(replace(plain, queries=["other"]), signals), claim)


def test_the_pages_say_how_many_fail_and_nothing_that_is_no_number() -> None:
    collections = [collection("a", {"fixed": (0.4, 0.5), "default": (0.5, 0.49)}), collection("b", qualities(0.5, 0.6))]
    named = study(*collections)
    claims = [
        Claim("one", "default", ["fixed"], [10, 20]),
        Claim("two", "default", ["fixed"], [10], margin=1),
    ]
    answers = [answer(claim, *collections) for claim in claims]
    page = claims_page(named, answers)
    assert "**Of 2 claims, 1 proven on every collection that they are about, 1 refuted on some.**" in page
    assert "Of 4 findings, one for each claim and collection, 3 hold,\n1 fail, and 0 are open" in page
    assert "| 1 | one | 1 | 1 | 0 | 1 of 2 | " in page
    assert "| a | ▼ | **fails** | 40 | " in page
    assert "nan" not in page


def test_budgets_in_calls_are_named_as_calls() -> None:
    collections = [collection(name, qualities(0.5, 0.6)) for name in "ab"]
    named = replace(study(*collections), unit=CALLS)
    found = held(named, Claim("one", "default", ["fixed"], [10], depth="spent"))
    assert found is not None
    assert found.rows["calls"].tolist() == [10.0, 10.0]
    pages = claims_page(named, [found]) + choice_page(named, CHOICE)
    assert "(10, 20 calls)" in pages
    assert "| calls | against |" in pages
    assert "documents" not in pages


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
    assert findings(pd.concat([comparisons(name, differences(*case)) for name, case in cases.items()])) == {
        "wide": ClaimVerdict.OPEN,
        "narrow": ClaimVerdict.FAILS,
        "long": ClaimVerdict.FAILS,
        "level": ClaimVerdict.HOLDS,
    }


def test_one_bad_pair_among_many_is_what_chance_brings() -> None:
    bad = comparisons("bad", differences(-0.1, 0.2, 25))
    assert 0.01 < bad["p_below"].iloc[0] < 0.05
    assert findings(bad)["bad"] is ClaimVerdict.FAILS
    others = [comparisons(f"c{i}", differences(LINE, 0.2, 25)) for i in range(9)]
    assert findings(pd.concat([bad, *others]))["bad"] is ClaimVerdict.OPEN


def test_a_failure_that_was_picked_from_many_comparisons_pays_for_it_and_a_proof_does_not() -> None:
    fails, holds = differences(-0.1, 0.2, 25), differences(0.1, 0.2, 25)
    assert findings(comparisons("a", fails))["a"] is ClaimVerdict.FAILS
    assert findings(comparisons("a", fails, *[differences(0.0, 0.2, 25)] * 3))["a"] is ClaimVerdict.OPEN
    assert findings(comparisons("a", holds, holds, holds, holds))["a"] is ClaimVerdict.HOLDS


def test_queries_that_differ_alike_prove_as_much_as_their_signs_and_a_single_one_tells_nothing() -> None:
    cases = {"level": (30, 0.0), "few": (2, LINE), "many": (30, LINE), "one": (1, LINE)}
    assert findings(pd.concat([comparisons(k, np.zeros(n), line=line) for k, (n, line) in cases.items()])) == {
        "level": ClaimVerdict.OPEN,
        "few": ClaimVerdict.OPEN,
        "many": ClaimVerdict.HOLDS,
        "one": ClaimVerdict.OPEN,
    }
