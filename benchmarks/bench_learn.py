"""python benchmarks/bench_learn.py DATA FOLDER [--seeds 20]: may a service choose its own budget without judgments?

Streams of 4,000 requests from nine collections, replayed from recorded scores (kept in FOLDER). The service reads the
first 200 requests in full, then a share of 5%. It takes the smallest budget of its policy whose mean loss by its model
is shown to be at most the tolerance, by betting confidence sequences from the largest budget down. Two detectors
(sums of products of bets, Shin, Ramdas and Rinaldo 2023) look for a change: the loss of the budget has risen, or scores
agree too little with the first stage. After 2,000 requests another reranker takes the place of the first. Writes
results/certificate/learn.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from recorded_requests import BUDGETS, COLLECTIONS, POLICIES, Requests, requests_of

from ragtune.core.arrays import FloatArray
from ragtune.core.statistics import BETS
from ragtune.services.learn import BUDGETS as LEARNED
from ragtune.services.learn import TOLERANCE

HALF, FIRST, SHARE, ALPHA = 2000, 200, 0.05, 0.05
MEASURES = {
    "stretched": "1 - nDCG@10, scores of a request stretched to [0, 1]",
    "loss": "1 - nDCG@10, scores as they are",
    "unlike": "share of the top 10 that differs",
}
CHOICES = [("stretched", one, 1) for one in (0.04, 0.05, TOLERANCE, 0.07, 0.1)]
CHOICES += [("stretched", TOLERANCE, 3), ("loss", 0.01, 1), ("loss", 0.05, 1), ("unlike", 0.2, 1), ("unlike", 0.3, 1)]
"""Measure of the loss, tolerance, and how many policies there are to choose from."""

USEFUL = 0.1
"""Correlation with the first stage below which a reranker is held to be of no use, as trust=auto has it."""

GOOD = {
    "nfcorpus": ("minilm", "cosine"),
    "dl19": ("minilm", "cosine"),
    "bright-biology": ("tfrank-4b", "identity"),
    "jqara-a": ("ruri-reranker-small", "identity"),
}
"""Another useful reranker of some collections."""

KINDS = {
    "none": "the same one again",
    "good": "another useful one",
    "random": "its scores in random order",
    "negated": "its scores negated",
    "recorded": "a recorded one that hurts",
}
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


def detected(values: FloatArray, means: FloatArray, limit: float) -> float:
    """The first place at which values in [0, 1] are shown to have fallen below their means for a time; inf if none.

    The mean over bets of sums, over the starts, of prod(1 + b (mean - x)): its probability to pass ``limit`` in n
    requests is at most n / limit.
    """
    sums = np.zeros(len(BETS))
    for at, (value, mean) in enumerate(zip(values, means, strict=True)):
        sums = (sums + 1.0) * (1.0 + BETS / (1.0 - mean) * (mean - value))
        if sums.mean() >= limit:
            return float(at)
    return np.inf


def stream(good: Requests, bad: Requests, choice: tuple[str, float, int], reference: str, seed: int) -> Stream:
    measure, tolerance, policies = choice
    draws = np.random.default_rng(seed)
    before = draws.choice(len(good.queries), HALF)
    after = draws.choice(len(bad.queries), HALF)
    seen = (np.arange(HALF) < FIRST) | (draws.random(HALF) < SHARE)
    policy, budget = _served(getattr(good, measure)[before], seen, tolerance, policies)
    last = int(policy[-1]), int(budget[-1])
    docs = good.docs[before, policy, budget]
    docs = docs + np.where(seen & (budget != FULL[1]), good.documents[before], 0.0)
    full = good.value[before, FULL[0], FULL[1]].mean()
    # Agreement with the first stage, of every request, over the documents that its budget reads.
    agreement = (1.0 + np.concatenate([good.correlation[before, budget], bad.correlation[after, last[1]]])) / 2.0
    first = (1.0 + good.correlation[before[:FIRST]]) / 2.0
    lows = np.full(len(BUDGETS), (1.0 + USEFUL) / 2.0)
    if reference == "own":  # what the first requests have shown at that budget, less three standard errors
        lows = np.maximum(lows, first.mean(axis=0) - 3.0 * first.std(axis=0, ddof=1) / FIRST**0.5)
    limit = 2 * HALF / ALPHA
    alarm = detected(agreement, lows[np.concatenate([budget, np.full(HALF, last[1])])], limit)
    # The loss of the arm that is served, among requests that are read in full.
    checked = draws.random(HALF) < SHARE
    worse = getattr(bad, measure)[after, last[0], last[1]][checked]
    losses = np.concatenate([getattr(good, measure)[before, policy, budget][seen], worse])
    places = np.concatenate([np.flatnonzero(seen), HALF + np.flatnonzero(checked)])
    late = detected(1.0 - losses, np.full(len(losses), 1.0 - tolerance), limit)
    late = late if np.isinf(late) else float(places[int(late)])
    worth = bad.value[after]
    blind, alone = worth[:, last[0], last[1]], worth[:, 0, 0]
    stops = int(np.clip(alarm - HALF, 0, HALF))
    return Stream(
        float(docs.sum() / good.documents[before].sum()),
        float(good.value[before, policy, budget].mean() / full),
        float(BUDGETS[last[1]]),
        float(getattr(good, measure)[:, last[0], last[1]].mean()) <= tolerance,
        alarm < HALF,
        late < HALF,
        alarm - HALF if alarm >= HALF else np.nan,
        late - HALF if late >= HALF else np.nan,
        float(np.concatenate([blind[:stops], alone[stops:]]).mean() / alone.mean()),
        float(blind.mean() / alone.mean()),
    )


def _served(losses, seen, tolerance: float, policies: int):  # type: ignore[no-untyped-def]
    """Policy and budget of every request: after one that is read in full, the cheapest arm that is shown to do."""
    arms = [(p, BUDGETS.index(b)) for b in LEARNED for p in range(policies)]
    flat = np.stack([losses[:, p, b] for p, b in arms], axis=1)[seen]
    shown = proven(flat, tolerance, policies).reshape(-1, len(LEARNED), policies)
    steps = np.logical_and.accumulate(shown.any(axis=2), axis=1).sum(axis=1)  # budgets, from the largest down
    served = np.tile(np.array(FULL), (len(losses), 1))
    for at, place in enumerate(np.flatnonzero(seen)):
        if steps[at] and place + 1 >= FIRST:
            row = steps[at] - 1
            served[place + 1 :] = arms[row * policies + int(np.argmax(shown[at, row]))]
    return served.T


def tables(data: Path, folder: Path) -> Iterator[tuple[str, str, Requests, Requests]]:
    for name, (scores, scale, bad) in COLLECTIONS.items():
        good = requests_of(data, name, scores, scale, "recorded", folder)
        for kind in KINDS:
            other = {"recorded": bad, "good": GOOD.get(name)}.get(kind)
            if other is not None:
                yield name, kind, good, requests_of(data, name, *other, "recorded", folder)
            elif kind == "none":
                yield name, kind, good, good
            elif kind in ("random", "negated"):
                yield name, kind, good, requests_of(data, name, scores, scale, kind, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    every = list(tables(arguments.data, arguments.folder))

    def streams(kind: str, choice: tuple[str, float, int], reference: str = "useful") -> FloatArray:
        """Shape (collections, seeds, fields)."""
        pairs = [(good, bad) for _, one, good, bad in every if one == kind]
        found = [[stream(*pair, choice, reference, seed) for seed in range(arguments.seeds)] for pair in pairs]
        return np.array(found, dtype=float)

    parts = [" ".join(str(__doc__).split("\n\n")[1].split()).replace(" Writes results/certificate/learn.md.", "")]
    parts += [_table(_budgets(streams)), _table(_collections(streams)), _table(_swaps(streams))]
    file = Path(__file__).parents[1] / "results" / "certificate" / "learn.md"
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n\n".join(["# Budgets that a service chooses itself", *parts]) + "\n", encoding="utf-8")
    print("\n\n".join(parts))


Streams = Callable[..., FloatArray]


def _budgets(streams: Streams) -> Iterator[tuple[object, ...]]:
    yield (
        "loss",
        "tolerance",
        "policies",
        "cost",
        "quality",
        "lowest of a collection",
        "last budget",
        "within tolerance",
    )
    for measure, tolerance, policies in CHOICES:
        cells = streams("none", (measure, tolerance, policies))
        cost, quality, budget, kept = cells.mean(axis=(0, 1))[:4]
        least = cells[:, :, 1].mean(axis=1).min()
        row = f"{cost:.2f}", f"{quality:.3f}", f"{least:.3f}", f"{budget:.0f}", f"{kept:.1%}"
        yield MEASURES[measure], tolerance, policies, *row


def _collections(streams: Streams) -> Iterator[tuple[object, ...]]:
    yield "collection", "reranker", "cost", "quality", "last budget"
    cells = streams("none", ("stretched", TOLERANCE, 1)).mean(axis=1)
    for (name, (table, *_)), row in zip(COLLECTIONS.items(), cells, strict=True):
        yield name, table, f"{row[0]:.2f}", f"{row[1]:.3f}", f"{row[2]:.0f}"


def _swaps(streams: Streams) -> Iterator[tuple[object, ...]]:
    yield (
        "second reranker", "agreement is compared with", "collections", "alarm before the swap", "alarm after it",
        "within 300", "median requests", "alarm of the loss, median", "quality after, with gate", "without",
    )  # fmt: skip
    for kind, words in KINDS.items():
        for reference, against in {"useful": f"{USEFUL:g}", "own": "the first 200 requests"}.items():
            cells = streams(kind, ("stretched", TOLERANCE, 1), reference)
            delay, late = (np.where(np.isnan(cells[:, :, at]), np.inf, cells[:, :, at]) for at in (6, 7))
            early = (cells[:, :, 4] + cells[:, :, 5] > 0).mean()
            shares = early, np.isfinite(delay).mean(), (delay <= 300).mean()
            medians = (f"{one:.0f}" if np.isfinite(one) else "none" for one in (np.median(delay), np.median(late)))
            after = (f"{cells[:, :, at].mean():.2f}" for at in (8, 9))
            yield words, against, len(cells), *(f"{one:.1%}" for one in shares), *medians, *after


def _table(rows: Iterator[tuple[object, ...]]) -> str:
    head, *body = [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *body])


if __name__ == "__main__":
    main()
