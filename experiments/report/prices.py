"""What a reranker's work costs, by the document, the call, the token and the search unit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from experiments.config.paths import CONF
from experiments.evaluate.curves import FloatArray
from ragtune.core.errors import ConfigError
from ragtune.core.plain import quoted

LIST_PRICES = CONF / "list_prices.yaml"

UNITS = ("usd", "ms", "docs", "calls", "tokens")


class Work(NamedTuple):
    """What a reranker did, arrays of one shape; ``largest`` counts the documents of the largest call."""

    docs: NDArray[Any]
    calls: NDArray[Any]
    tokens: NDArray[Any]
    largest: NDArray[Any]


class Prices(BaseModel):
    """Prices of a reranker in dollars and milliseconds, each >= 0."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    usd_per_doc: float = Field(default=0.0, ge=0.0)
    usd_per_call: float = Field(default=0.0, ge=0.0)
    usd_per_1k_tokens: float = Field(default=0.0, ge=0.0)
    usd_per_search_unit: float = Field(default=0.0, ge=0.0)
    docs_per_search_unit: int = Field(default=100, ge=1)  # of each call, begun; 100 at Cohere and Bedrock
    ms_per_doc: float = Field(default=0.0, ge=0.0)
    ms_per_call: float = Field(default=0.0, ge=0.0)

    @property
    def priced(self) -> list[str]:
        """The units of a cost that are known by these prices: ``usd``, ``ms``, and the counted ones."""
        named = {name.partition("_")[0] for name, price in self.model_dump().items() if price}
        return [unit for unit in UNITS if unit not in ("usd", "ms") or unit in named]

    def bill(self, work: Work) -> dict[str, FloatArray]:
        """What the work costs, by unit of :data:`UNITS`, in the shape of the work."""
        per_call = np.ceil(work.largest / self.docs_per_search_unit)
        units = np.where(work.calls > 0, per_call * work.calls, 0.0)
        usd = (
            self.usd_per_doc * work.docs
            + self.usd_per_call * work.calls
            + self.usd_per_1k_tokens * work.tokens / 1000.0
            + self.usd_per_search_unit * units
        )
        ms = self.ms_per_doc * work.docs + self.ms_per_call * work.calls
        counted = {"docs": work.docs, "calls": work.calls, "tokens": work.tokens}
        return {"usd": usd, "ms": ms, **{unit: count.astype(float) for unit, count in counted.items()}}


def prices_of(*known: Mapping[str, Any]) -> Prices:
    """The prices of a reranker: dollars, and times, of the last source that names any. A price of 0 counts as named."""
    given: dict[str, Any] = {}
    for source in known:
        named = {name: value for name, value in source.items() if name in Prices.model_fields}
        kinds = {name[:3] for name in named if name[:3] in ("usd", "ms_")}
        given = {name: value for name, value in given.items() if name[:3] not in kinds} | named
    return Prices(**given)


def read_prices(file: Path) -> dict[str, float]:
    """Read a YAML file of prices: ``NAME: NUMBER`` a line, see :class:`Prices`."""
    allowed = ", ".join(Prices.model_fields)
    try:
        raw = yaml.safe_load(file.read_text(encoding="utf-8"))
        return Prices.model_validate(raw, strict=True).model_dump(include=set(raw))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise ConfigError(f"--prices {file}: cannot be read: {reason}") from None
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "the file"
        raise ConfigError(
            f"--prices {file}: {name}={quoted(first['input'])}: {first['msg']}; allowed names are {allowed}"
        ) from None


class ListedService(BaseModel):
    """A service with its prices, and when and where they were read; ``secondary``: not on the vendor's own page."""

    model_config = ConfigDict(frozen=True)

    name: str
    read: str
    source: str
    secondary: bool
    prices: Prices


def listed_services() -> list[ListedService]:
    """Read the table of list prices: a YAML list, each with ``name``, ``read``, ``source``, ``secondary``, prices."""
    try:
        entries = yaml.safe_load(LIST_PRICES.read_text(encoding="utf-8"))
        named = [{name: entry.pop(name, None) for name in ("name", "read", "source", "secondary")} for entry in entries]
        return [ListedService(**one, prices=entry) for one, entry in zip(named, entries, strict=True)]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, AttributeError, ValidationError) as error:
        raise ConfigError(f"list prices {LIST_PRICES}: cannot be used: {' '.join(str(error).split())}") from None
