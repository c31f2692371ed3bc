"""How options and choices are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOVED = {"retriever.depth": "retrieval.original_query_depth", "plan": "retrieval", "policy": "rerank_stage"}
"""Options by the names that they had once, and where they went."""


def moved(name: str) -> str | None:
    """What to say of an option's former name; None of any other."""
    for old, new in MOVED.items():
        if name == old or name.startswith(f"{old}."):
            return f"unknown option {name!r}: it is {new}{name.removeprefix(old)} now"
    return None


def policy_name(config: Mapping[str, Any]) -> str:
    """Estimator, scheduler and order in a few words: how a policy is called in tables and legends."""
    parts = [leaf(config, "estimator"), leaf(config, "scheduler")]
    if leaf(config, "expander") != "none":
        parts.append(leaf(config, "expander"))
    return " + ".join([*parts, str(config["assembler"].get("ordering", leaf(config, "assembler")))])


def leaf(config: Mapping[str, Any], group: str) -> str:
    """The name of a group's file: what was chosen."""
    return str(config[group]["_target_"]).split(".")[-2]
