"""Short forms of options, spelled out before Hydra reads them; configurations that are compared by their results."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

WHERE_NOT_WHAT = ("executor", "tracking", "resume", "verbosity")
"""Keys that change where or how a run happens, never what it finds."""


def choices_of(overrides: Sequence[str]) -> dict[str, str]:
    """The overrides that decide what a run finds, by the names of their options."""
    given = dict(override.partition("=")[::2] for override in overrides)
    return {name: value for name, value in given.items() if name.partition(".")[0] not in WHERE_NOT_WHAT}


def spelled_out(overrides: Sequence[str]) -> list[str]:
    """The overrides, where ``budget=20`` and ``budget=3calls`` stand for the limit of that unit.

    An amount is one of documents unless a unit follows: see :mod:`ragtune.core.units`. It takes
    the place of the documents in ``budget=tight``. Several amounts of one unit are those of a sweep; names of budgets
    may stand among them, and Hydra is told then of a budget for each amount.
    """
    return [option for override in overrides for option in _spelled_out(override)]


def _spelled_out(override: str) -> list[str]:
    name, _, value = override.partition("=")
    amounts = [amount.strip() for amount in value.split(",")]
    if name != "budget" or not any(re.match(r"[-+.]*\d", amount) for amount in amounts):
        return [override]
    from ragtune.core.errors import ConfigError
    from ragtune.core.units import LIMITS

    names = [amount for amount in amounts if re.fullmatch(r"[a-z]\w*", amount)]
    form = rf"(\d+(?:\.\d+)?(?:e-?\d+)?)({'|'.join(LIMITS)})?"
    matches = {amount: re.fullmatch(form, amount) for amount in amounts if amount not in names}
    found = {amount: (match[1], match[2] or "docs") for amount, match in matches.items() if match}
    units = {unit for _, unit in found.values()}
    if len(found) < len(matches) or len(units) > 1:
        raise ConfigError(
            f"{override!r}: allowed are amounts of one unit, {', '.join(LIMITS)} (docs if unsaid), as in budget=20, "
            "budget=3calls or budget=0.002usd,0.01usd, and names of budgets, as in budget=tight,50"
        )
    if names:
        choices = {amount: f"{number}{unit}" for amount, (number, unit) in found.items()}
        for amount, choice in choices.items():
            _store_budget(choice, *found[amount])
        return [f"budget={','.join(choices.get(amount, amount) for amount in amounts)}"]
    unit = units.pop()
    others = [] if unit == "docs" else [f"budget.{LIMITS['docs']}=null"]
    return ["budget=tight", *others, f"budget.{LIMITS[unit]}={','.join(found[amount][0] for amount in amounts)}"]


def _store_budget(name: str, number: str, unit: str) -> None:
    """Make a budget of that amount known to Hydra beside the files of conf/budget."""
    import yaml
    from hydra.core.config_store import ConfigStore

    from experiments.config.paths import CONF
    from ragtune.core.units import LIMITS

    tight = yaml.safe_load((CONF / "budget" / "tight.yaml").read_text(encoding="utf-8"))
    amount = int(number) if number.isdigit() else float(number)
    ConfigStore.instance().store(group="budget", name=name, node={**tight, LIMITS["docs"]: None, LIMITS[unit]: amount})


class RunConfig(Mapping[str, Any]):
    """A resolved configuration that is hashed and compared by the options that decide the results."""

    def __init__(
        self,
        options: Mapping[str, Any],
        inputs: str = "",  # digest of the input files, which may change while a process lives
        later_budgets: Sequence[Any] | None = None,  # of later jobs of a sweep that differ by one limit; None outside
    ) -> None:
        self._options, self.inputs, self.later_budgets = options, inputs, later_budgets

    @cached_property
    def key(self) -> str:
        """See :func:`results_key`."""
        return results_key(self._options)

    def without(self, *names: str) -> RunConfig:
        """The configuration without some options."""
        return RunConfig({name: value for name, value in self.items() if name not in names}, self.inputs)

    def __getitem__(self, name: str) -> Any:
        return self._options[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunConfig) and (self.key, self.inputs) == (other.key, other.inputs)

    def __hash__(self) -> int:
        return hash((self.key, self.inputs))


def results_key(config: Mapping[str, Any]) -> str:
    """The options that decide the results, as canonical JSON."""
    what = {name: value for name, value in config.items() if name not in WHERE_NOT_WHAT}
    return json.dumps(what, sort_keys=True)
