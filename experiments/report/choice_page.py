"""What leaving one group out says, as a page of Markdown tables."""

from __future__ import annotations

from experiments.report.leave_one_out import LeaveOneOut
from experiments.report.study import Choice, Study, column_of


def choice_page(study: Study, choice: Choice, found: LeaveOneOut) -> str:
    """The choice, what each group would have got by it, and the gains that it was made by.

    Args:
        study: what was measured.
        choice: how the policy is chosen.
        found: the outcome.
    """
    return "\n".join([_head(study, choice, found), _left_out(study, choice, found), _gains(study, found)])


def _head(study: Study, choice: Choice, found: LeaveOneOut) -> str:
    default, final = (study.by_name[name].label for name in (choice.default, found.final))
    proven = found.low > 0
    title = f"Take {final}." if proven and found.final != choice.default else f"Keep {default}."
    gets = f"{found.difference:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"
    agree = sum(entry.chosen == found.final for entry in found.left_out)
    budgets = ", ".join(map(column_of, choice.budgets))
    reference = study.by_name[study.reference].label
    return f"""# {study.name}: leaving one group out

**{title}** A group gets {gets} {study.measures[0]} more than with {default} if the others choose for it.
All groups together choose {final} (in {found.shares[found.final]:.0%} of the resamples); so do {agree} of the
{len(found.left_out)} choices that leave one out.

Each group of collections is left out in turn. The others choose the policy with the largest mean gain over
{reference} at equal budgets ({budgets} {study.noun}), over the collections of a group and over the groups, so that a
group counts once; of equals {default}. What the left-out group gets with that policy is what the choice is worth
where nobody looked. Another policy than {default} is taken only if that is above zero with its interval.

- made by `{study.command}`
- code: `{study.git_sha}`
- intervals: {study.level:.0%}, {study.resamples} bootstrap resamples of the queries, the choice held fixed;
  collections over the same queries share them; seed {study.seed}
- hindsight: the largest gain on the group itself, which nobody can know beforehand
- chosen again: share of the resamples of the others' queries in which they choose the same
"""


def _left_out(study: Study, choice: Choice, found: LeaveOneOut) -> str:
    default = study.by_name[choice.default].label
    lines = [
        f"| left out | the others choose | chosen again | gain | gain of {default} | difference "
        "| best in hindsight | its gain |",
        "|---|---|---:|---:|---:|---:|---|---:|",
    ]
    for entry in found.left_out:
        chosen, best = (study.by_name[name].label for name in (entry.chosen, entry.best))
        difference = f"{entry.difference:+.4f} [{entry.low:+.4f}, {entry.high:+.4f}]"
        lines.append(
            f"| {entry.group} | {chosen} | {entry.same:.0%} | {entry.gain:+.4f} | "
            f"{entry.gain - entry.difference:+.4f} | {difference} | {best} | {entry.best_gain:+.4f} |"
        )
    return "\n".join(["## What each group would have got\n", *lines, ""])


def _gains(study: Study, found: LeaveOneOut) -> str:
    groups = [entry.group for entry in found.left_out]
    best = [max(gains[i] for gains in found.gains.values()) for i in range(len(groups))]
    lines = [f"| policy | {' | '.join(groups)} | mean | chosen by all |", f"|---|{'---:|' * (len(groups) + 2)}"]
    for name, gains in found.gains.items():
        cells = [f"**{gain:+.4f}**" if gain == best[i] else f"{gain:+.4f}" for i, gain in enumerate(gains)]
        lines.append(
            f"| {study.by_name[name].label} | {' | '.join(cells)} | {gains.mean():+.4f} | {found.shares[name]:.0%} |"
        )
    title = f"## Gains over {study.by_name[study.reference].label}, by which policies are chosen\n"
    return "\n".join([title, *lines, ""])
