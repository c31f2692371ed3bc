"""The extractor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ragtune.core.request.context import CostMeter
from ragtune.superprompt.agents.base import BaseAgent
from ragtune.superprompt.agents.config import ExtractorConfig
from ragtune.superprompt.agents.contracts import extractor_contract
from ragtune.superprompt.agents.texts import bounded, tidy


class Extractor(BaseAgent[ExtractorConfig]):
    """Fills fixed keys with texts and lists of texts, in one call."""

    accepts: ClassVar = ExtractorConfig

    def extract(self, parts: Mapping[str, str], meter: CostMeter) -> dict[str, str | list[str]]:
        """Return a value within its limits for every key of the configuration; optional ones may be empty."""
        [answer] = self._ask([self.prompt.messages(parts)], extractor_contract(self.config), meter)
        said = answer.values()
        found: dict[str, str | list[str]] = {}
        for name, key in self.config.keys.items():
            if key.type == "text":
                found[name] = bounded(tidy(said[name]), key.max_tokens)
            else:
                texts = [bounded(tidy(text), key.max_tokens) for text in said[name]]
                found[name] = [text for text in texts if text][: key.max_items]
        return found
