"""The chooser over a whole input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ragtune.core.request.context import CostMeter
from ragtune.superprompt.agents.base import BaseAgent
from ragtune.superprompt.agents.choices import Choices, decide
from ragtune.superprompt.agents.config import ChooserConfig
from ragtune.superprompt.agents.contracts import record_contract


class Chooser(BaseAgent[ChooserConfig]):
    """Chooses one value a field from closed lists, in a single call."""

    accepts: ClassVar = ChooserConfig

    def choose(self, parts: Mapping[str, str], meter: CostMeter) -> Choices:
        """A choice for every field; what is missing, not allowed or not sure enough is the default.

        Args:
            parts: parts of the input by name; each is fenced.
            meter: meter that the cost is charged to.

        Raises:
            LLMError: if there is no answer, or none that is an object with at least one of the fields.
        """
        messages = self.prompt.messages(parts)
        return decide(self.config, self._ask(messages, record_contract(self.config), meter).values())
