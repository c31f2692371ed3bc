"""The subject interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from experiments.datasets.dataset import Dataset
from experiments.evaluate.record import QueryRecord
from ragtune.core.errors import ConfigError


class Subject(ABC):
    """What a collection's queries are replayed through. It holds nothing, so that it can be sent to workers.

    Attributes:
        views: states of the anytime history that are measured by themselves: position in ``QueryRecord.rankings`` by
            name. Whatever they are, the last state is what a run is judged by.
    """

    views: ClassVar[Mapping[str, int]] = {}

    @abstractmethod
    def open(self, config_json: str) -> Dataset:
        """The collection, once everything that a replay needs is there: built once per process.

        Raises:
            InputError: on a configuration that cannot be followed.
        """

    @abstractmethod
    def replay_shard(self, config_json: str, query_ids: Sequence[str]) -> list[QueryRecord]:
        """Replay some queries in this process: the unit of work of every executor."""

    @abstractmethod
    def label(self, config: Mapping[str, Any]) -> str:
        """The policy in a few words: how a run is called in tables and legends."""

    def tags(self, config: Mapping[str, Any]) -> dict[str, str]:
        """Tags of a run that say more, or something else, than those of every run."""
        return {}

    def forecast(self, config: Mapping[str, Any], progress: Callable[[int, int], None]) -> dict[str, Any]:
        """What a run would cost, as :func:`experiments.replay.forecast.forecast` has it.

        Raises:
            ConfigError: where that is not known beforehand.
        """
        raise ConfigError(f"dry_run=true: {type(self).__name__} has no forecast: allowed is false")
