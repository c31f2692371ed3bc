"""python benchmarks/bench_learn.py DATA FOLDER [--seeds 20]: may a service choose its own budget without judgments?

Streams of 4,000 requests from nine collections, replayed from recorded scores (kept in FOLDER). The service reads the
first 200 requests in full, then a share of 5%. It takes the cheapest arm (policy and budget) whose mean loss by the
model's own scores is shown to be at most the tolerance, by a betting confidence sequence down the budgets. Two detectors
(sums of products of bets, Shin, Ramdas and Rinaldo 2023) look after each request: the loss of the arm has risen, or the
scores agree less with the first stage. After 2,000 requests another reranker takes the place of the first. Writes
results/certificate/learn.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from recorded_requests import BUDGETS, COLLECTIONS, POLICIES, Requests, requests_of

from ragtune.core.arrays import FloatArray

HALF, FIRST, SHARE, ALPHA = 2000, 200, 0.05, 0.05
TOLERANCES = (0.02, 0.03, 0.05, 0.07, 0.1)
BETS = np.geomspace(0.01, 0.99, 12)
USEFUL = 0.1
"""Correlation with the first stage below which a reranker is held to be of no use, as trust=auto has it."""

KINDS = ("none", "random", "negated", "recorded")
FULL = (POLICIES.index("fixed_depth"), len(BUDGETS) - 1)


class Stream(NamedTuple):
    """One stream: shares of the cost and quality of reading all before the swap, and when an alarm came."""

    cost: float
    quality: float  # nDCG@10 by judgments, divided by that of reading all
    budget: float
    kept: bool  # whether the true mean loss of the last arm is within the tolerance
    early: bool  # alarm of agreement before the swap
    early_loss: bool  # alarm of the loss before it
    delay: float  # requests after the swap until agreement's alarm; inf: none
    delay_loss: float
    after: float  # quality after the swap, beside that of the first stage
    after_blind: float  # the same, had nobody noticed


def proven(losses: FloatArray, tolerance: float, tests: int) -> FloatArray:
    """Whether by each request the mean loss is shown to be at most the tolerance, shape (t, arms)."""
    wealth = np.full(losses.shape, -np.inf)
    for bet in BETS:
        wealth = np.logaddexp(wealth, np.cumsum(np.log1p(bet * (tolerance - losses)), axis=0))
    return np.maximum.accumulate(wealth - np.log(len(BETS)), axis=0) >= np.log(tests / ALPHA)


def detected(values: FloatArray, mean: float, limit: float) -> float:
    """The first place at which values in [0, 1] are shown to have fallen below the mean since some time; inf if none.

    The mean over bets of sums, over the starts, of prod(1 + b (mean - x)): its probability to pass ``limit`` in n
    requests is at most n / limit.
    """
    bets = BETS / (1.0 - mean)
    sums = np.zeros(len(bets))
    for at, value in enumerate(values):
        sums = (sums + 1.0) * (1.0 + bets * (mean - value))
        if sums.mean() >= limit:
            return float(at)
    return np.inf


def stream(good: Requests, bad: Requests, measure: str, tolerance: float, reference: str, seed: int) -> Stream:
    draws = np.random.default_rng(seed)
    before = draws.choice(len(good.queries), HALF)
    after = draws.choice(len(bad.queries), HALF)
    seen = (np.arange(HALF) < FIRST) | (draws.random(HALF) < SHARE)
    losses = getattr(good, measure)[before]
    arms = [(p, b) for b in range(len(BUDGETS) - 1, 0, -1) for p in range(len(POLICIES))]
    flat = np.stack([losses[:, p, b] for p, b in arms], axis=1)[seen]
    shown = proven(flat, tolerance, len(POLICIES)).reshape(-1, len(BUDGETS) - 1, len(POLICIES))
    chain = np.logical_and.accumulate(shown.any(axis=2), axis=1)
    steps = chain.sum(axis=1)  # budgets shown, from the largest down
    served = np.full(HALF, -1)
    taken = np.flatnonzero(seen)
    for at, place in enumerate(taken):
        if steps[at] and place + 1 >= FIRST:
            budget = steps[at] - 1
            served[place + 1 :] = budget * len(POLICIES) + int(np.argmax(shown[at, budget]))
    policy = np.array([p for p, _ in arms] + [FULL[0]])[served]
    budget = np.array([b for _, b in arms] + [FULL[1]])[served]
    docs = good.docs[before, policy, budget]
    docs = docs + np.where(seen & (served >= 0), good.documents[before], 0.0)
    last = int(policy[-1]), int(budget[-1])
    full = good.value[before, FULL[0], FULL[1]].mean()
    agreement = (1.0 + good.correlation[before, budget]) / 2.0
    low = (1.0 + USEFUL) / 2.0
    if reference == "own":  # what the first requests have shown, less their error, if that is more
        first = agreement[:FIRST]
        low = max(low, first.mean() - 3.0 * first.std(ddof=1) / FIRST**0.5 - 0.02)
    later = (1.0 + bad.correlation[after, last[1]]) / 2.0
    limit = 2 * HALF / ALPHA
    alarm = detected(np.concatenate([agreement, later]), low, limit)
    # The loss of the arm that is served, among requests that are read in full.
    checked = draws.random(HALF) < SHARE
    own = np.concatenate(
        [losses[np.arange(HALF), policy, budget][seen], getattr(bad, measure)[after, last[0], last[1]][checked]]
    )
    places = np.concatenate([taken, HALF + np.flatnonzero(checked)])
    late = detected(1.0 - own, 1.0 - tolerance, limit)
    late = np.inf if np.isinf(late) else float(places[int(late)])
    worth = bad.value[after]
    blind, alone = worth[:, last[0], last[1]], worth[:, 0, 0]
    stops = int(min(max(alarm - HALF, 0.0), HALF)) if alarm >= HALF else 0
    mixed = np.concatenate([blind[:stops], alone[stops:]])
    return Stream(
        float(docs.sum() / good.documents[before].sum()),
        float(good.value[before, policy, budget].mean() / full),
        float(BUDGETS[last[1]]),
        float(getattr(good, measure)[:, last[0], last[1]].mean()) <= tolerance,
        alarm < HALF,
        late < HALF,
        alarm - HALF if alarm >= HALF else np.nan,
        late - HALF if late >= HALF else np.nan,
        float(mixed.mean() / alone.mean()),
        float(blind.mean() / alone.mean()),
    )


def tables(data: Path, folder: Path) -> Iterator[tuple[str, str, Requests, Requests]]:
    for name, (scores, scale, bad) in COLLECTIONS.items():
        good = requests_of(data, name, scores, scale, "recorded", folder)
        for kind in KINDS:
            if kind == "recorded" and bad:
                yield name, kind, good, requests_of(data, name, *bad, "recorded", folder)
            elif kind == "none":
                yield name, kind, good, good
            elif kind != "recorded":
                yield name, kind, good, requests_of(data, name, scores, scale, kind, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--measures", nargs="+", default=["unlike", "stretched"])
    arguments = parser.parse_args()
    every = list(tables(arguments.data, arguments.folder))
    for measure in arguments.measures:
        for tolerance in TOLERANCES if measure != "unlike" else (0.05, 0.1, 0.15, 0.2, 0.3):
            rows = [
                stream(good, bad, measure, tolerance, "own", seed)
                for _, kind, good, bad in every
                if kind == "none"
                for seed in range(arguments.seeds)
            ]
            cells = np.array(rows, dtype=float).reshape(-1, arguments.seeds, len(Stream._fields))
            mean = cells.mean(axis=(0, 1))
            print(
                measure,
                tolerance,
                "cost %.2f quality %.3f budget %.0f kept %.3f early %.3f earlyloss %.3f" % tuple(mean[:6]),
            )
            print("   cost", cells.mean(axis=1)[:, 0].round(2), "q", cells.mean(axis=1)[:, 1].round(3))


if __name__ == "__main__":
    main()
