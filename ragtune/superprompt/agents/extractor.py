"""The extractor: fixed keys with texts and lists of texts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, create_model

from ragtune.core.request.context import CostMeter
from ragtune.superprompt.agents.agent import AgentConfig, BaseAgent, Contract, Name, bounded, tidy
from ragtune.superprompt.frozen import Frozen


class ExtractedKey(Frozen):
    """One key to extract: a text, or a list of texts. ``max_tokens`` is the limit of each text."""

    type: Literal["text", "list"]
    required: bool
    description: str = ""
    max_tokens: int = Field(ge=1)
    max_items: int = Field(default=1, ge=1)


class ExtractorConfig(AgentConfig):
    """Fills fixed keys."""

    keys: Mapping[Name, ExtractedKey] = Field(min_length=1)

    def choices(self) -> str:
        return "\n".join(
            f"- {name}: {key.description} ({key.type}, at most {key.max_tokens} tokens"
            f"{' each, ' + str(key.max_items) + ' entries' if key.type == 'list' else ''}"
            f"{'' if key.required else '; may be left out'})"
            for name, key in self.keys.items()
        )

    def answer(self, first: int | None) -> dict[str, Any]:
        return {name: "..." if key.type == "text" else ["..."] for name, key in self.keys.items()}

    def contract(self) -> type[Contract]:
        """Return the contract: required keys are not empty; JSON in place of a text is written out."""
        fields: dict[str, Any] = {}
        for name, key in self.keys.items():
            least = 1 if key.required else 0
            if key.type == "text":
                constraints = StringConstraints(strip_whitespace=True, min_length=least)
                fields[name] = (Annotated[str, constraints, BeforeValidator(_as_text)], ... if key.required else "")
            else:
                kind = Annotated[list[str], Field(min_length=least), BeforeValidator(_as_list)]
                fields[name] = (kind, ... if key.required else [])
        return create_model(self.title, __base__=Contract, **fields)


class Extractor(BaseAgent[ExtractorConfig]):
    """Fills fixed keys with texts and lists of texts, in one call."""

    def extract(self, parts: Mapping[str, str], meter: CostMeter) -> dict[str, str | list[str]]:
        """Return a value within its limits for every key of the configuration; optional ones may be empty."""
        [said] = self._ask([self.messages(parts)], self.config.contract(), meter)
        found: dict[str, str | list[str]] = {}
        for name, key in self.config.keys.items():
            if key.type == "text":
                found[name] = bounded(tidy(said[name]), key.max_tokens)
            else:
                texts = [bounded(tidy(text), key.max_tokens) for text in said[name]]
                found[name] = [text for text in texts if text][: key.max_items]
        return found


def _as_text(value: Any) -> Any:
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False, indent=2) if isinstance(value, dict | list) else value


def _as_list(value: Any) -> Any:
    if value is None:
        return []
    return [line for line in value.split("\n") if line.strip()] if isinstance(value, str) else value
