"""A resolved configuration as a run hands it on, to worker processes too."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from experiments.config.overrides import WHERE_NOT_WHAT


class RunConfig(Mapping[str, Any]):
    """A resolved configuration that is hashed and compared by the options that decide the results.

    Args:
        options: plain data, see :func:`experiments.config.compose.resolve`.
        inputs: digest of the input files. It tells apart two runs of one process whose files changed in between.
        later_budgets: budgets, as plain data, of later jobs of the same sweep in this process that differ from this run
            by one limit alone; None outside a sweep. They change no result.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        inputs: str = "",
        later_budgets: Sequence[Mapping[str, Any]] | None = None,
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
