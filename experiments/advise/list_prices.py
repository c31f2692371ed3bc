"""Public list prices of rerank services, for a reranker whose own price is not known."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from experiments.advise.prices import Prices
from experiments.config.paths import CONF
from ragtune.core.errors import ConfigError

FILE = CONF / "list_prices.yaml"


class ListedService(BaseModel):
    """A service with its prices, the day on which they were read, and where.

    Attributes:
        secondary: whether that page is not the vendor's own.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    read: str
    source: str
    secondary: bool
    prices: Prices


def listed_services(file: Path = FILE) -> list[ListedService]:
    """Read the table of list prices: a YAML list, each with ``name``, ``read``, ``source``, ``secondary``, prices.

    Raises:
        ConfigError: if it cannot be read, or an entry lacks one of them or has an unknown price.
    """
    try:
        entries = yaml.safe_load(file.read_text(encoding="utf-8"))
        known = ("name", "read", "source", "secondary")
        return [
            ListedService(
                **{name: entry.get(name) for name in known},
                prices=Prices(**{name: value for name, value in entry.items() if name not in known}),
            )
            for entry in entries or []
        ]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, AttributeError, ValidationError) as error:
        raise ConfigError(f"list prices {file}: cannot be used: {' '.join(str(error).split())}") from None
