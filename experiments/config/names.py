"""Names of options, of choices and of policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOVED = {"retriever.depth": "retrieval.original_query_depth", "plan": "retrieval", "policy": "rerank_stage"}
"""New names of renamed options, by their former names."""


def moved(name: str) -> str | None:
    """The message of an error for the former name of an option; None for any other name."""
    for old, new in MOVED.items():
        if name == old or name.startswith(f"{old}."):
            return f"unknown option {name!r}: it is {new}{name.removeprefix(old)} now"
    return None


def policy_name(config: Mapping[str, Any]) -> str:
    """The name of a policy in tables and legends: its estimator, scheduler, expander (if any) and order."""
    parts = [leaf(config, "estimator"), leaf(config, "scheduler")]
    if leaf(config, "expander") != "none":
        parts.append(leaf(config, "expander"))
    return " + ".join([*parts, str(config["assembler"].get("ordering", leaf(config, "assembler")))])


def leaf(config: Mapping[str, Any], group: str) -> str:
    """The name of the file that was chosen from a group, e.g. ``greedy`` for ``scheduler``."""
    return str(config[group]["_target_"]).split(".")[-2]
