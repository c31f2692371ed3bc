"""The rule that chooses, and the prices that it goes by."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from experiments.advise import words
from experiments.advise.advice import Advice
from experiments.advise.choose import Option, Options, bounds, choose, nearest_question, options_of
from experiments.advise.conclude import conclude
from experiments.advise.options import CANDIDATES, budgets_up_to, fitting
from experiments.advise.replays import PolicyCurve, Replays, Setting, choose_setting, require_queries
from experiments.report.prices import Prices, Work, listed_services, prices_of, read_prices
from ragtune.core.errors import ConfigError
from ragtune.estimators.posterior.correlation import SourceCorrelation


def make_options(values: np.ndarray) -> Options:
    """Options of rising cost: a useless first stage, the columns, the last of which is reranking everything."""
    values = np.hstack([0.01 * values[:, -1:], values])
    count = values.shape[1]
    named = [Option(CANDIDATES[0], 5 * i, is_full=i == count - 1) for i in range(count)]
    docs = np.tile(5.0 * np.arange(count), (len(values), 1))
    counted = docs.astype(np.int64)
    work = Work(counted, (counted + 4) // 5, 100 * counted, np.full_like(counted, 5))
    return Options(named, values, {"docs": docs}, count - 1, "docs", work)


def test_ten_options_that_all_break_the_promise_are_seldom_taken_for_good() -> None:
    wrong, draws = 0, np.random.default_rng(0)
    for seed in range(200):
        full = draws.beta(4, 2, size=(40, 1))
        shared, own = draws.normal(0, 0.08, size=(40, 1)), draws.normal(0, 0.08, size=(40, 10))
        options = make_options(np.hstack([0.95 * full + shared + own, full]))
        known = bounds(options, resamples=200, level=0.95, seed=seed)
        wrong += choose(options, known, 0.95) != options.full
    assert wrong <= 20  # each by itself would be wrong 10 times, the luckiest of ten far more often


def test_lower_ends_hold_where_few_queries_lose_much() -> None:
    held, draws = 0, np.random.default_rng(0)
    for seed in range(200):
        full = draws.beta(8, 2, size=(40, 1))
        rarely = draws.random((40, 6)) < 0.1
        known = bounds(make_options(np.hstack([full * (1 - 0.5 * rarely), full])), resamples=200, level=0.95, seed=seed)
        held += (known.low[1:-1] <= 0.95).all()
    assert held >= 180  # 190 by rights


def test_what_never_changed_in_few_queries_is_not_taken_for_certain() -> None:
    full = np.linspace(0.2, 0.9, 20)
    options = make_options(np.stack([full - 0.2, np.where(np.arange(20) % 2, full - 0.1, full), full, full], axis=1))
    known = bounds(options, resamples=200, level=0.95, seed=0)
    assert known.kept[3] == pytest.approx(1.0)
    assert known.low[3] < 0.99 < known.low[4] == pytest.approx(1.0)
    assert choose(options, known, 0.99) == 4
    assert choose(options, known, 0.5) == 1
    question = nearest_question(options, known, 4, 0.99)
    assert question[0] == 3
    assert question[1] > 20


@pytest.mark.parametrize(
    ("full", "other", "said"),
    [
        (
            [0.5, 0.8] + [0.0] * 18,  # two of twenty tell anything: three more, at that rate
            [0.5, 0.9] + [0.0] * 18,
            "only 2 of 20 judged queries have any quality to keep; at least 50 like these are needed, 30 more",
        ),
        (
            [0.7] * 20,  # 59 alike exclude, with 95%, that one in twenty loses all
            [0.7] * 20,
            "all 20 judged queries say the same of every option; at least 59 like these are needed, 39 more",
        ),
        ([0.7] * 60, [0.7] * 60, None),
    ],
)
def test_a_sample_too_small_to_say_anything_says_only_how_many_are_needed(
    full: list[float], other: list[float], said: str | None
) -> None:
    first = full if full == other else [one / 2 for one in full]
    replays = replays_of({"fixed_depth": np.array([first, other, full]).T})
    if said is None:
        assert concluded(replays, quality=0.95).options
        return
    with pytest.raises(ConfigError, match=f"nothing can be advised yet: {said}$"):
        concluded(replays, quality=0.95)


def test_too_few_queries_are_refused_with_the_number_needed() -> None:
    with pytest.raises(ConfigError, match=r"the collection has 1 judged query; at least 5 are needed, 4 more$"):
        require_queries(1, judged=True)
    require_queries(5, judged=True)


def test_without_judgments_the_headline_is_conditional_and_names_what_decides(
    concluded_without_judgments: Advice,
) -> None:
    assert words.recommendation(concluded_without_judgments).startswith(
        "If you want the full reranking: use the policy"
    )
    limits = words.limits_of_agreement(concluded_without_judgments)
    assert "cannot show whether that reranking helps" in limits
    assert "about 32 judged queries" in limits
    assert words.LABELS_NEEDED in limits
    assert words.limits_of_agreement(concluded_without_judgments.model_copy(update={"judged": True})) is None


@pytest.mark.parametrize(
    ("mean", "deviation", "requests", "trust", "said"),
    [
        (0.3, 0.1, 100, 0.5, "Trust 0.5: the reranker's scores agree with the first stage (correlation +0.30 ± 0.02 "),
        (0.05, 0.1, 100, 0.15, "are not shown to agree much with the first stage (correlation +0.05 ± 0.02 "),
        (0.01, 0.1, 100, 0.0, "Trust 0: the reranker's scores are not shown to agree with the first stage "),
        (-0.3, 0.1, 29, 0.5, "Trust stays at 0.5: 29 queries are too few"),
    ],
)
def test_without_judgments_trust_follows_the_correlation_with_the_first_stage(
    mean: float, deviation: float, requests: int, trust: float, said: str
) -> None:
    correlation = SourceCorrelation(requests, mean, deviation / requests**0.5)
    full = np.linspace(0.5, 1.0, 40)[:, None]
    replays = replays_of({"fixed_depth": np.hstack([full * 0.5, full * 0.9, full])}, judged=False)
    advice = concluded(replace(replays, trust=Setting(correlation.trust), correlation=correlation))
    assert advice.trust == trust
    assert said in (words.source_agreement(advice) or "")
    assert (advice.recommended.budget == 0) is words.recommendation(advice).startswith("Do not rerank") is (trust == 0)
    assert bool(words.sureness(advice)) is bool(advice.ladder) is (trust > 0)
    assert words.source_agreement(concluded(replays)) is None


def replays_of(values: dict[str, np.ndarray], judged: bool = True) -> Replays:
    """Curves of shape (q, b) by candidate, at 5, 10, ... documents and, of fixed depth, at none before."""
    curves = {}
    for name, columns in values.items():
        q, b = columns.shape
        budgets = [5 * (i + (name != "fixed_depth")) for i in range(b)]
        docs = np.tile(np.array(budgets), (q, 1))
        work = Work(docs, -(-docs // 5), 1000 * docs, np.minimum(docs, 5))
        candidate = next(one for one in CANDIDATES if one.name == name)
        curves[name] = PolicyCurve(candidate, budgets, columns[:, :, None], work)
    ids = [str(i) for i in range(len(next(iter(values.values()))))]
    dataset = SimpleNamespace(name="d", warnings={})
    return Replays(dataset, judged, ["agreement of the top 10"], Setting(0.5), Setting(0.2), ids, 20, curves)  # type: ignore[arg-type]


def concluded(replays: Replays, **options: Any) -> Advice:
    known = {"quality": 0.8, "unit": "docs", "traffic": 1000, "resamples": 300, "level": 0.95, "seed": 0}
    return conclude(replays, Prices(), listed_services(), **{**known, **options}, command="c", git_sha="g")


@pytest.fixture(scope="module")
def concluded_without_judgments() -> Advice:
    draws = np.random.default_rng(0)
    full = np.ones((40, 1))
    fixed = np.hstack([full * 0.5, full * 0.6, full * 0.7, full * 0.75, full])
    mine = np.hstack([1 - draws.binomial(10, p, size=(40, 1)) / 10 for p in (0.3, 0.1, 0.02)] + [full])
    return concluded(replays_of({"fixed_depth": fixed, "uncertainty/5": mine}, judged=False))


def test_agreement_is_never_above_all_in_an_interval(concluded_without_judgments: Advice) -> None:
    advice = concluded_without_judgments
    assert max(row.kept.high for row in advice.options if row.kept.high is not None) == 1.0
    assert "P@10" not in advice.model_dump_json()
    assert repr(advice) == f"Advice({advice.recommended.label} for {advice.dataset})"
    assert advice._repr_html_().count("<tr>") == 4


def test_the_next_step_is_the_next_row_and_no_row_repeats(concluded_without_judgments: Advice) -> None:
    advice = concluded_without_judgments
    costs = [rung.cost for rung in advice.ladder]
    assert costs == sorted(costs, reverse=True)
    at = next(i for i, rung in enumerate(advice.ladder) if rung.gain is None)
    assert advice.ladder[at].option == advice.recommended.label
    assert [i for i, rung in enumerate(advice.ladder) if rung.is_next] == [at - 1]
    assert len({rung.option for rung in advice.ladder}) == len(advice.ladder)
    stopped = np.tile(np.linspace(0.5, 1.0, 20)[:, None], 3)
    replays = replays_of({"fixed_depth": np.tile(stopped[:, :1], 4), "settled/5": stopped})
    ended = replays.curves["settled/5"]
    ended.work.docs[:], ended.work.calls[:], ended.work.tokens[:] = 5, 1, 5000
    settled = [
        option for option in options_of(replays, Prices(), "docs").options if option.candidate.policy == "settled"
    ]
    assert [option.budget for option in settled] == [5]


def test_a_month_at_list_prices_is_shown_where_the_reranker_has_no_price(concluded_without_judgments: Advice) -> None:
    advice = concluded_without_judgments
    best = advice.recommended.cost
    by_name = {one.name: one for one in advice.list_prices}
    cohere, voyage = by_name["Cohere Rerank 4.0"], by_name["Voyage rerank-2.5"]
    assert cohere.recommended == pytest.approx(1000 * 0.002 * best["calls"])
    assert voyage.recommended == pytest.approx(1000 * 0.00005 * best["tokens"] / 1000)
    assert all(one.read and one.source.startswith("https://") for one in advice.list_prices)
    vendors = ("cohere.com", "voyageai.com")
    assert all(one.secondary or any(vendor in one.source for vendor in vendors) for one in advice.list_prices)
    assert "secondary sources" in words.money(advice)
    assert "$" in words.money(advice)
    assert words.latency(advice).startswith("Latency: no time was measured")


def test_trust_or_weight_is_chosen_where_that_gains_on_queries_that_it_was_not_chosen_by() -> None:
    draws = np.random.default_rng(1)
    base = draws.beta(4, 2, size=40)
    noise = {trust: draws.normal(0, 0.02, 40) for trust in (0.25, 0.5, 0.75)}
    better = choose_setting({t: base + n + 0.05 * (t == 0.75) for t, n in noise.items()}, 0.5, level=0.95, seed=0)
    assert better.value == 0.75
    assert 0.0 < better.low < better.gain < 0.1
    worse = {t: base + n - 0.05 * (t != 0.5) for t, n in noise.items()}
    assert choose_setting(worse, 0.5, level=0.95, seed=0).value == 0.5
    few = choose_setting({t: (base + n + (t == 0.75))[:9] for t, n in noise.items()}, 0.5, level=0.95, seed=0)
    assert few.value == 0.5


def test_budgets_rise_to_the_pool_and_end_where_batches_do() -> None:
    assert budgets_up_to(100) == [5, 10, 15, 20, 30, 40, 60, 80, 100]
    assert budgets_up_to(7) == [5, 7]
    assert fitting(20, budgets_up_to(100)) == [20, 40, 60, 80, 100]


def test_search_units_are_paid_for_each_call() -> None:
    docs, calls = np.array([100, 20, 250, 0]), np.array([1, 4, 1, 0])
    work = Work(docs, calls, 10 * docs, np.array([100, 5, 250, 0]))
    bill = Prices(usd_per_search_unit=2.0, ms_per_call=10.0, ms_per_doc=1.0).bill(work)
    assert bill["usd"].tolist() == [2.0, 8.0, 6.0, 0.0]
    assert bill["ms"].tolist() == [110.0, 60.0, 260.0, 0.0]


def test_the_last_source_that_knows_dollars_replaces_those_before_and_leaves_times() -> None:
    known = prices_of({"usd_per_doc": 1.0, "ms_per_doc": 3.0}, {"usd_per_call": 0.5}, {"usd_per_1k_tokens": 2.0})
    assert known == Prices(usd_per_1k_tokens=2.0, ms_per_doc=3.0)
    assert known.priced == ["usd", "ms", "docs", "calls", "tokens"]


def test_what_is_free_by_the_file_is_not_charged_by_the_table_and_a_price_is_a_number(tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text("usd_per_doc: 0\n")
    known = prices_of({"usd_per_doc": 1.0, "ms_per_doc": 3.0}, read_prices(tmp_path / "prices.yaml"))
    assert known == Prices(ms_per_doc=3.0)
    (tmp_path / "prices.yaml").write_text("usd_per_doc: yes\n")
    with pytest.raises(ConfigError, match=r"usd_per_doc='?True'?: Input should be a valid number"):
        read_prices(tmp_path / "prices.yaml")


def test_a_harmful_reranker_is_not_recommended_unless_a_policy_is_shown_to_be_better_than_the_first_stage() -> None:
    draws = np.random.default_rng(0)
    first = draws.beta(4, 2, size=(40, 1))
    fixed = np.hstack([first, first - 0.01, first - 0.02, first - 0.1])
    noise = draws.normal(0, 0.02, size=(40, 2))
    for gain in (0.05, 0.002, -0.05):
        mine = np.hstack([first + gain, first + gain]) + noise
        advice = concluded(replays_of({"fixed_depth": fixed, "uncertainty/5": mine}), quality=0.8)
        said = words.recommendation(advice)
        assert said.startswith("Do not rerank")
        assert "does harm" in (words.harm(advice) or "")
        assert advice.target == advice.first_stage
        assert (advice.recommended.budget > 0) is (gain == 0.05)
        assert ("everything" in said) is (gain == 0.05)
        assert (advice.question is not None) is (gain == 0.002)
        low = advice.recommended.kept.low
        assert low > 1.0 or advice.recommended == advice.first_stage
        assert [rung.option for rung in advice.ladder[-1:]] == ["no reranking"] * (gain == 0.05)
        assert (len(words.sureness(advice)) > 1) is (gain == 0.05)


def test_interpolated_fixed_depth_can_be_recommended_and_is_shown_beside_what_else_is() -> None:
    full = np.random.default_rng(0).beta(4, 2, size=(40, 1))
    fixed = np.hstack([full * share for share in (0.5, 0.6, 0.7, 1.0)])
    both = np.hstack([full] * 3)
    mine = np.hstack([full * share for share in (0.7, 1.0, 1.0)])
    found = {"fixed_depth": fixed, "interpolated_fixed_depth": both, "uncertainty/5": mine}
    best = concluded(replays_of(found), quality=0.9)
    assert (best.recommended.policy, best.recommended.budget) == ("interpolated_fixed_depth", 5)
    assert words.recommendation(best) == (
        "Rerank the first 5 documents of every query, in one call. Rank them by both scores (interpolated_fixed_depth)."
    )
    assert best.own_order is None
    assert [row.policy for row in best.same_depth] == ["fixed_depth"]
    other = concluded(replays_of({**found, "interpolated_fixed_depth": both - 0.2}), quality=0.9)
    assert (other.recommended.policy, other.recommended.budget) == ("uncertainty", 10)
    assert [row.policy for row in other.same_depth] == ["fixed_depth", "interpolated_fixed_depth"]
    assert (words.beside_baselines(other) or "").startswith("At 10.0 documents a query, fixed depth keeps 70.0%")


@pytest.mark.parametrize(("start", "comes_first"), [(0.58, True), (0.52, False)])
def test_what_the_policys_own_order_brings_before_any_score_is_not_credited_to_reranking(
    start: float, comes_first: bool
) -> None:
    first = np.full((40, 1), 0.5)
    replays = replays_of(
        {"fixed_depth": np.hstack([first, first - 0.1]), "uncertainty/5": np.hstack([first + 0.1] * 2)}
    )
    mine = replace(replays.curves["uncertainty/5"], start=start)
    advice = concluded(replace(replays, curves={**replays.curves, "uncertainty/5": mine}))
    said = words.own_order(advice) or ""
    assert f"first stage alone has {advice.measure} 0.500. The policy's own order has {start:.3f}" in said
    assert said in words.beside_the_headline(advice)
    assert ("Most of the gain comes before any score" in said) is comes_first
