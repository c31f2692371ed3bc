"""The subject interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from experiments.config.run_config import RunConfig
from experiments.datasets.dataset import Dataset
from experiments.evaluate.record import QueryRecord, Ranked
from ragtune.core.errors import ConfigError


class Baselines:
    """What a policy has to beat, replayed in this process; here: nothing."""

    def over(self, query_ids: Sequence[str]) -> dict[str, list[Ranked]]:
        """Replay these queries through each baseline.

        Returns:
            The replays in the order of the queries, by the name of the baseline; one that cannot answer all of them is
            left out, then and ever after.
        """
        return {}


class Subject(ABC):
    """Interface of what the queries of a collection are replayed through.

    A subject has no state, so that it can be sent to worker processes.

    Attributes:
        views: states of the anytime history that are measured by themselves, as positions in ``QueryRecord.rankings``
            by name. A run is always judged by the last state.
    """

    views: ClassVar[Mapping[str, int]] = {}

    @abstractmethod
    def open(self, config: RunConfig) -> Dataset:
        """Build everything that a replay needs, once per process.

        Args:
            config: of the run.

        Returns:
            The collection.

        Raises:
            InputError: on a configuration that cannot be followed.
        """

    @abstractmethod
    def replay_shard(self, config: RunConfig, query_ids: Sequence[str]) -> list[QueryRecord]:
        """Replay some queries in this process. This is the unit of work of every executor."""

    @abstractmethod
    def label(self, config: RunConfig) -> str:
        """Name of the policy in tables and legends."""

    def tags(self, config: RunConfig) -> dict[str, str]:
        """Tags of a run, added to those that every run has, or in place of them."""
        return {}

    def compares_apart(self, config: RunConfig) -> bool:
        """Whether documents are compared in batches that share none."""
        return False

    def is_fixed_depth(self, config: RunConfig) -> bool:
        """Whether the policy is fixed depth: one batch of the first stage's best, ranked by their scores."""
        return False

    def baselines(self, config: RunConfig) -> Baselines:
        """What the policy has to beat; nothing where that would cost something."""
        return Baselines()

    def forecast(self, config: RunConfig, progress: Callable[[int, int], None]) -> dict[str, Any]:
        """Forecast the cost of a run, see :func:`experiments.replay.forecast.forecast`.

        Raises:
            ConfigError: if the subject has no forecast.
        """
        raise ConfigError(f"dry_run=true: {type(self).__name__} has no forecast: allowed is false")
