"""What learned priors come to, as a page of Markdown tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments.evaluate.significance import SIGNIFICANT
from experiments.study.learned.candidates import BILL, FEATURES
from experiments.study.learned.fit import COPY, MODELS, STRENGTH
from experiments.study.learned.replays import BUDGETS, COLUMN, HISTORY, LEAST, USES
from experiments.study.learned.tables import ALL, NOTHING, OTHERS, PRIOR, Row
from experiments.study.study import Policy, Study

NAME = "learned_prior"
"""The files' name, without its end."""

_WAYS = [(model, use) for model in MODELS for use in USES]


def picture_name(base: Policy) -> str:
    """The file of a policy's learning curves."""
    return f"{NAME}.{base.name}.png"


def learned_page(study: Study, rows: Sequence[Row]) -> str:
    """The tables: means over groups, every collection, learning curves.

    Args:
        study: of the policies whose priors were replaced, and of how they were compared.
        rows: the comparisons.
    """
    bases = [policy for policy in study.policies if policy.kind == "ours"]
    parts = [_head(study, rows), _means(bases, rows), *_collections(bases, rows), *_curves(bases, rows)]
    return "\n".join(parts)


def _head(study: Study, rows: Sequence[Row]) -> str:
    features = "\n".join(f"- {feature}" for feature in FEATURES)
    return f"""# A prior that learns from the reranker's scores

Learned from other collections, on each collection, and held against {_verdict(rows, PRIOR, "the prior as it is")}
Held against {_verdict(rows, COPY, "a copy of the prior mean as a column, which nobody has learned")}

A ridge, or gradient-boosted trees, is fitted to the reranker's own scores of the {BILL} documents that the prior ranks
first, query by query. It predicts by how much they differ from the prior mean. No judgment is used. What it predicts
from, all known of every candidate before scoring:

{features}

How a prediction is used:

- **mean**: the prediction takes the place of the prior mean
- **column**: it is one more signal beside the others, whose weight the posterior learns; no witness
- **copy**: the prior mean itself as a column. Nothing is learned, so what it brings is not the learning's

How it was measured:

- made by `{study.command}`
- code: `{study.git_sha}`
- {study.measures[0]}, differences; intervals: {study.level:.0%}, {study.resamples} bootstrap resamples of the queries,
  the models held fixed; collections over the same queries share them; seed {study.seed}
- **bold**: p < {SIGNIFICANT} by the randomization test ({study.permutations} sign vectors), corrected by Holm's method
  over all comparisons on the collection: policies, models, uses, budgets and, of the curves, histories; the intervals
  and those of the means are not corrected
- scores are logits, standardised over the scores of the collection that are learned from; each group of collections
  has the same weight; the ridge's penalty is {STRENGTH:.0f} documents; nothing was tuned
- `{NAME}.csv` has all comparisons
"""


def _verdict(rows: Sequence[Row], against: str, what: str) -> str:
    """How many comparisons on a collection tell, where its group was left out."""
    told = [row for row in rows if row.learned_from == OTHERS and row.against == against and row.p_holm is not None]
    sure = [row for row in told if row.p_holm is not None and row.p_holm < SIGNIFICANT]
    better = sum(row.difference > 0 for row in sure)
    return f"{what}:\n**significantly better in {better} of {len(told)} comparisons, worse in {len(sure) - better}.**"


def _means(bases: Sequence[Policy], rows: Sequence[Row]) -> str:
    lines = [f"| policy | model | use | against | {_budgets()} |", f"|---|---|---|---|{'---:|' * len(BUDGETS)}"]
    for base in bases:
        for (model, use), against in [
            *((way, PRIOR) for way in [*_WAYS, (COPY, COLUMN)]),
            *((way, COPY) for way in _WAYS if way[1] == COLUMN),
        ]:
            mine = _pick(rows, evaluated_on="all", base=base.name, model=model, use=use, against=against)
            cells = [_cell(row) for row in mine if row.collection == ALL]
            lines.append(f"| {base.label} | {model} | {use} | {against} | {' | '.join(cells)} |")
    groups = next(row.queries for row in rows if row.collection == ALL)
    title = f"## Learned from the other groups: means over {groups} groups, by documents reranked\n"
    return "\n".join([title, *lines, ""])


def _collections(bases: Sequence[Policy], rows: Sequence[Row]) -> Iterator[str]:
    ways = [*_WAYS, (COPY, COLUMN)]
    for base in bases:
        for budget in BUDGETS:
            mine = _pick(rows, evaluated_on="all", base=base.name, against=PRIOR, budget=budget)
            yield f"## Learned from the other groups: {base.label}, {budget} documents\n"
            yield f"| collection | queries | as it is | {' | '.join(f'{m}, {u}' for m, u in ways)} |"
            yield f"|---|---:|---:|{'---:|' * len(ways)}"
            for name in dict.fromkeys(row.collection for row in mine if row.collection != ALL):
                of_it = [row for way in ways for row in _pick(mine, collection=name, model=way[0], use=way[1])]
                cells = " | ".join(map(_cell, of_it))
                yield f"| {name} | {of_it[0].queries} | {of_it[0].reference:.3f} | {cells} |"
            yield ""


def _curves(bases: Sequence[Policy], rows: Sequence[Row]) -> Iterator[str]:
    yield f"""## Learned from the collection's own first queries

All histories of a collection are evaluated on the same queries, those after the longest one; at least {LEAST} have to
be left. After 0 queries the prior is the one that nobody fitted. Means over the groups that are long enough; a row's
differences are from the prior on the same queries, and `copy` is the copy's.
"""
    for base in bases:
        mine = _pick(rows, evaluated_on="rest", base=base.name, collection=ALL)
        yield f"### {base.label}\n"
        if mine:
            yield f"![Quality by queries seen, {base.label}]({picture_name(base)})\n"
        yield f"| queries seen | groups | model | use | against | {_budgets()} |"
        yield f"|---:|---:|---|---|---|{'---:|' * len(BUDGETS)}"
        for seen in (NOTHING, *map(str, HISTORY)):
            some = _pick(mine, learned_from=seen)
            for key in dict.fromkeys((row.model, row.use, row.against) for row in some):
                of_it = _pick(some, model=key[0], use=key[1], against=key[2])
                count = "0" if seen == NOTHING else seen
                yield f"| {count} | {of_it[0].queries} | {' | '.join(key)} | {' | '.join(map(_cell, of_it))} |"
        yield ""


def _pick(rows: Sequence[Row], **wanted: object) -> list[Row]:
    return [row for row in rows if all(getattr(row, name) == value for name, value in wanted.items())]


def _budgets() -> str:
    return " | ".join(map(str, BUDGETS))


def _cell(row: Row) -> str:
    text = f"{row.difference:+.3f} [{row.low:+.3f}, {row.high:+.3f}]"
    return f"**{text}**" if row.p_holm is not None and row.p_holm < SIGNIFICANT else text
