"""A0's chooser: which canonical key an unknown header means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragtune.core.request.context import CostMeter
from ragtune.superprompt.agents.item_chooser import ItemChooser
from ragtune.superprompt.stages.a0_preprocessing import HeaderChoice

_KEY = "key"


class HeaderKeyChooser:
    """Implements :class:`ragtune.superprompt.stages.a0_preprocessing.HeaderChooser` by an agent over items.

    A choice that does not say how sure it is has confidence 0: nothing passes A0's threshold unsaid.

    Args:
        agent: a chooser over items with the field ``key``, whose enum is open.
    """

    def __init__(self, agent: ItemChooser) -> None:
        self.agent = agent

    def choose(self, headers: Sequence[str], keys: Sequence[str], meter: CostMeter) -> Mapping[str, HeaderChoice]:
        """See :class:`ragtune.superprompt.stages.a0_preprocessing.HeaderChooser`."""
        choices = self.agent.choose({}, list(headers), meter, {_KEY: list(keys)})
        return {
            header: HeaderChoice(key=choice.fields[_KEY].value, confidence=choice.certainty or 0.0)
            for header, choice in zip(headers, choices, strict=True)
        }
