"""The units in which costs are counted, charged, limited and shown: one entry each, and nothing else names them."""

from __future__ import annotations

import math
from typing import NamedTuple

DOCS_PER_SEARCH_UNIT = 100
"""A search unit of Cohere and Bedrock is one query with up to so many documents."""


class Unit(NamedTuple):
    """A unit of cost: its names in CostObject, for users, in CostBudget, accounts and refusals, and how it is shown.

    One that ``is_always_told`` is named even where nothing was spent; of the others 0 says unpriced.
    """

    name: str
    short: str
    limit: str
    label: str
    noun: str
    column: str
    number: str
    account: str
    refusal: str
    is_count: bool = False
    is_always_told: bool = False


DOCS = Unit(
    "docs", "docs", "max_reranker_docs", "documents", "documents", "documents_mean", "{:,.1f}", "rerank_docs",
    "doc_limit_exceeded", is_count=True, is_always_told=True,
)  # fmt: skip
CALLS = Unit(
    "calls", "calls", "max_reranker_calls", "calls", "calls", "calls", "{:,.1f}", "rerank_calls",
    "call_limit_exceeded", is_count=True, is_always_told=True,
)  # fmt: skip
TOKENS = Unit(
    "tokens", "tokens", "max_tokens", "tokens", "tokens", "tokens", "{:,.0f}", "tokens",
    "token_limit_exceeded", is_count=True, is_always_told=True,
)  # fmt: skip
TIME = Unit(
    "latency_ms", "ms", "max_latency_ms", "latency (ms)", "milliseconds", "milliseconds", "{:,.0f}", "latency_ms",
    "latency_exceeded", is_always_told=True,
)  # fmt: skip
MONEY = Unit(
    "usd", "usd", "max_cost_usd", "money (USD)", "dollars", "usd", "{:,.5f}", "usd",
    "cost_limit_exceeded", is_always_told=True,
)  # fmt: skip
FLOPS = Unit(
    "flops", "flops", "max_flops", "FLOPs", "FLOPs", "flops", "{:.3g}", "flops", "flop_limit_exceeded",
)  # fmt: skip
SEARCH_UNITS = Unit(
    "search_units", "search_units", "max_search_units", "search units", "search units", "search_units", "{:,.1f}",
    "search_units", "search_unit_limit_exceeded", is_count=True,
)  # fmt: skip
ENERGY = Unit(
    "joules", "joules", "max_joules", "energy (J)", "joules", "joules", "{:,.1f}", "joules", "energy_limit_exceeded",
)  # fmt: skip

UNITS = (DOCS, CALLS, TOKENS, TIME, MONEY, FLOPS, SEARCH_UNITS, ENERGY)
"""All units, in the order of every record: documents, calls, tokens, time and money first."""

NAMES = tuple(unit.name for unit in UNITS)
"""Their names, in that order."""

BY_SHORT = {unit.short: unit for unit in UNITS}
"""Units by the short names that users give them."""

LIMITS = {unit.short: unit.limit for unit in UNITS}
"""The limit in each unit, by the same names."""

SOMETIMES_TOLD = tuple(unit.name for unit in UNITS if not unit.is_always_told)
"""Units that are left out where nothing was spent in them."""

REFUSED_FIRST = (TIME, MONEY, DOCS, CALLS, TOKENS, FLOPS, SEARCH_UNITS, ENERGY)
"""The order in which a refusal is explained: the first account that cannot pay is named."""


def search_units(docs: float, each: int = DOCS_PER_SEARCH_UNIT) -> int:
    """What a call with so many documents is billed, by Cohere and those who bill alike: one for ``each`` begun."""
    return math.ceil(round(docs / each, 6))
