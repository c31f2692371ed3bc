"""The chooser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ragtune.core.request.context import CostMeter
from ragtune.superprompt.agents.base import BaseAgent
from ragtune.superprompt.agents.choices import Choices, decide, defaults
from ragtune.superprompt.agents.config import ITEM_ID, ChooserConfig
from ragtune.superprompt.agents.contracts import items_contract, number_of, record_contract


class Chooser(BaseAgent[ChooserConfig]):
    """Chooses one value a field from closed lists. A missing, forbidden or too uncertain value becomes the default."""

    accepts: ClassVar = ChooserConfig

    def choose(self, parts: Mapping[str, str], meter: CostMeter) -> Choices:
        """Choose for the whole input in one call; ``parts`` are fenced."""
        [answer] = self._ask([self.prompt.messages(parts)], record_contract(self.config), meter)
        return decide(self.config, answer.values())

    def choose_each(
        self,
        parts: Mapping[str, str],
        items: Sequence[str],
        meter: CostMeter,
        enums: Mapping[str, Sequence[str]] | None = None,
    ) -> list[Choices]:
        """Choose for every item, in order, in as few calls as the input limit allows.

        Items are numbered from 1 through all calls. An answer counts for the items of its own call only, and the first
        entry for an item counts. An item without an entry gets the defaults. ``enums`` has the allowed values of fields
        whose enum the configuration leaves open.
        """
        numbered = list(enumerate(items, start=1))
        groups = self.prompt.split(parts, numbered, self.config.max_items_per_call, enums or {})
        if not groups:
            return []
        contract = items_contract(self.config, enums or {}, max(map(len, groups)))
        answers = self._ask([self.prompt.messages(parts, group, enums) for group in groups], contract, meter)
        entries: dict[int, Mapping[str, Any]] = {}
        for group, answer in zip(groups, answers, strict=True):
            own = {number for number, _ in group}
            for entry in answer.values()["items"]:
                number = number_of(entry.get(ITEM_ID))
                if number in own:
                    entries.setdefault(number, entry)
        return [
            decide(self.config, entries[number], enums) if number in entries else defaults(self.config, "missing")
            for number, _ in numbered
        ]
