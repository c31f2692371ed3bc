"""python benchmarks/bench_certificate.py DATA FOLDER [--months 1000]: do the bounds of certificates cover the truth?

A month is 20,000 requests of one collection, a reranker, a policy and a budget, replayed from recorded scores (kept in
FOLDER). Every month has its own popularity of queries (Dirichlet, 0.3). ``ragtune certificate`` sees only the shadowed
share. Writes results/certificate/months.md, and the certificate of one month beside it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
from recorded_requests import BUDGETS, COLLECTIONS, POLICIES, Requests, requests_of

from ragtune.core.statistics import mean_at_most
from ragtune.services.certificate import certificate, page, signed

REQUESTS = 20_000
SHARES = (0.002, 0.01, 0.05)
DOCS = (5, 10, 20, 40)
LOOKS = 20
EXAMPLE = 1
"""The month whose certificate is shown."""

OUT = Path(__file__).parents[1] / "results" / "certificate"
HEADS = ("requests compared", "months", "true loss", "bound, mean", "bound covers", "bound covers at every look",
         "Student's t covers loss", "documents saved: covers", "tokens saved: covers")  # fmt: skip


def month(requests: Requests, seed: int, share: float, folder: Path) -> tuple[float, ...]:
    """One month: true loss, bound, and what covers."""
    draws = np.random.default_rng(seed)
    policy, budget = draws.integers(len(POLICIES)), BUDGETS.index(int(draws.choice(DOCS)))
    count = len(requests.queries)
    asked = draws.choice(count, REQUESTS, p=draws.dirichlet(np.full(count, 0.3)))
    length = draws.lognormal(5.0, 0.4, count)  # tokens of a document of each query
    taken = asked[draws.random(REQUESTS) < share]
    docs, loss = requests.docs[:, policy, budget], requests.loss[:, policy, budget]
    saved = {"docs": requests.documents - docs, "tokens": np.round((requests.documents - docs) * length)}
    file = folder / "shadow.jsonl"
    file.write_text("".join(_line(requests, one, docs, loss, length, BUDGETS[budget]) for one in taken))
    body = certificate(file)
    bound, truth = body["loss"]["at_most"], float(loss[asked].mean())
    looks = np.unique(np.linspace(1, len(taken), LOOKS).astype(int))
    always = all(mean_at_most(loss[taken[:look]]) >= truth for look in looks)
    own, mean = loss[taken], float(loss[taken].mean())
    usual = mean + 1.645 * own.std(ddof=1) / len(own) ** 0.5 >= truth  # one-sided, as its competitor would be
    ends = [body["saved_a_request"][unit] for unit in saved]
    covers = [
        end["low"] <= values[asked].mean() <= end["high"] for end, values in zip(ends, saved.values(), strict=True)
    ]
    return truth, bound, bound >= truth, always, usual, *covers


def _line(requests: Requests, one: int, docs, loss, length, budget: int) -> str:  # type: ignore[no-untyped-def]
    def cost(count: float) -> dict[str, float]:
        return {"docs": int(count), "calls": 1, "tokens": round(count * length[one])}

    everything = requests.documents[one]
    whole = cost(docs[one])["tokens"] + round((everything - docs[one]) * length[one])
    return json.dumps(
        {"at": "2026-11-01T00:00:00+00:00", "model": "recorded", "policy": "p", "budget": {"docs": budget},
         "documents": int(everything), "reranked": int(docs[one]), "overlap": 1.0, "rbo": 1.0,
         "quality": min(1.0, max(0.0, 1.0 - float(loss[one]))), "spent": cost(docs[one]),
         "full": {**cost(everything), "tokens": whole},
         "served_order": [], "full_order": []}
    ) + "\n"  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--months", type=int, default=1000)
    arguments = parser.parse_args()
    tables = [
        requests_of(arguments.data, name, *table, "recorded", arguments.folder)
        for name, (scores, scale, bad) in COLLECTIONS.items()
        for table in ((scores, scale), bad)
        if table is not None
    ]
    found: dict[float, list[tuple[float, ...]]] = {share: [] for share in SHARES}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(arguments.months):
            share = SHARES[seed % len(SHARES)]
            found[share].append(month(tables[seed % len(tables)], seed, share, Path(folder)))
            if seed == EXAMPLE:
                body = certificate(Path(folder) / "shadow.jsonl")
                text = signed(body, b"the key of the example")
                OUT.mkdir(exist_ok=True)
                (OUT / "example.json").write_text(text, encoding="utf-8")
                (OUT / "example.html").write_text(page(body, json.loads(text)["signature"]["value"]), encoding="utf-8")
    found[0.0] = [month for months in found.values() for month in months]
    lines = [f"| {' | '.join(HEADS)} |", f"|{'---:|' * len(HEADS)}"]
    for share, months in found.items():
        truth, bound, *covers = np.mean(months, axis=0)
        name = f"about {share * REQUESTS:,.0f}" if share else "**all**"
        cells = [name, f"{len(months):,}", f"{truth:.3f}", f"{bound:.3f}", *(f"{one:.1%}" for one in covers)]
        lines.append(f"| {' | '.join(cells)} |")
    table = "\n".join(lines) + "\n"
    words = " ".join(str(__doc__).split("\n\n")[1].split())
    (OUT / "months.md").write_text(
        f"# Bounds of certificates in simulated months\n\n{words}\n\n{table}", encoding="utf-8"
    )
    print(table)


if __name__ == "__main__":
    main()
