"""The chooser over items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ragtune.core.request.context import CostMeter
from ragtune.superprompt.agents.base import BaseAgent
from ragtune.superprompt.agents.choices import Choices, decide, defaults
from ragtune.superprompt.agents.config import ITEM_ID, ChooserConfig
from ragtune.superprompt.agents.contracts import items_contract, number_of
from ragtune.superprompt.agents.prompt import Numbered


class ItemChooser(BaseAgent[ChooserConfig]):
    """Chooses one value a field and item from closed lists, in as few calls as the input limit allows."""

    accepts: ClassVar = ChooserConfig

    def choose(
        self,
        parts: Mapping[str, str],
        items: Sequence[str],
        meter: CostMeter,
        enums: Mapping[str, Sequence[str]] | None = None,
    ) -> list[Choices]:
        """Choices for every item, in order.

        Items are numbered from 1 through all calls. An answer counts for the items of its own call only; of several
        entries for an item the first counts; an item without an entry gets the defaults.

        Args:
            parts: the input that all items share, by name; fenced.
            items: texts of the items; each is fenced by itself.
            meter: meter that the costs are charged to.
            enums: what is allowed in fields whose enum the configuration leaves open.

        Raises:
            LLMError: if one of the calls has no answer, or none that is a list of objects.
        """
        numbered: list[Numbered] = list(enumerate(items, start=1))
        groups = self.prompt.split(parts, numbered, self.config.max_items_per_call, enums or {})
        conversations = [self.prompt.messages(parts, group, enums) for group in groups]
        contract = items_contract(self.config, enums or {}, max(map(len, groups), default=0))
        answers = self._ask_all(conversations, contract, meter) if groups else []
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
