"""The recommended option, ready to be copied: for ragtune run, for the library, and for the server."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from experiments.config.options import presets
from experiments.study.advise.advice import Row
from experiments.study.advise.options import FIXED, LIKE_THE_FACADE

_FACADE = """\
from ragtune import BudgetedReranker


def score(query, texts):  # in its place: a cross-encoder's folder or hub name, or a rerank server's address
    words = set(query.lower().split())
    return [len(words & set(text.lower().split())) / len(words) for text in texts]


reranker = BudgetedReranker({model}, docs={docs}, policy="{policy}", batch_size={batch}{trust})
ranking = reranker.rank(
    "green tea",
    ["Coffee is roasted.", "Green tea is steamed.", "Ships have sails."],
    scores=[3.1, 7.4, 0.2],  # the first stage's, higher is better
)
print([found.index for found in ranking])
"""

_UPSTREAM = {"model": "--upstream-model", "dialect": "--upstream-dialect", "api_key_env": "--upstream-key-env"}

_NOTHING = "# Reranking is not worth its cost here: keep the first stage's order.\n"


def snippets(row: Row, config: Mapping[str, Any], data: Sequence[str], folder: Path) -> dict[str, str]:
    """What to copy, by where it goes: ``run``, ``preset`` (a file for Hydra), ``facade``, ``serve``.

    Args:
        row: the recommended option.
        config: the user's configuration, with the reranker that the user named.
        data: the overrides that choose collection, first stage and recorded scores, and so replay what was looked at.
        folder: where the preset is written.
    """
    return {
        "run": shlex.join(["ragtune", "run", "--config-dir", str(folder), "experiment=advice", *data]),
        "plain": shlex.join(["ragtune", "run", *data, *_overrides(row)]),
        "preset": preset(row),
        "facade": _facade(row, config["reranker"]) if row.budget else _NOTHING,
        "serve": _serve(row, config["reranker"]) if row.budget else _NOTHING,
    }


def preset(row: Row) -> str:
    """The option as a preset of ``conf/experiment``, YAML."""
    is_fixed = row.policy == FIXED
    defaults = [{"override /estimator": "baseline" if is_fixed else "uncertainty"}]
    if not is_fixed:
        defaults.append({f"override /{LIKE_THE_FACADE.partition('=')[0]}": LIKE_THE_FACADE.partition("=")[2]})
    policy = presets()[row.policy]
    defaults += [{"override /scheduler": policy.chosen.get("scheduler", "greedy")}, {"override /budget": "tight"}]
    body: dict[str, Any] = {"defaults": defaults}
    if not is_fixed:
        body["estimator"] = {"trust": row.trust}
        body["scheduler"] = {**policy.options.get("scheduler", {}), "batch_size": row.batch_size}
    body["assembler"] = {"ordering": "reranked_first" if is_fixed else "posterior"}
    body["budget"] = {"max_reranker_docs": row.budget}
    text = yaml.safe_dump(body, sort_keys=False)
    return f"# @package _global_\n# What ragtune advise recommends: {row.label}.\n{text}"


def _overrides(row: Row) -> list[str]:
    if row.policy == FIXED:
        return [f"experiment={FIXED}", f"budget={row.budget}"]
    policy = [f"experiment={row.policy}", LIKE_THE_FACADE, f"estimator.trust={row.trust}"]
    return [*policy, f"scheduler.batch_size={row.batch_size}", f"budget={row.budget}"]


def _facade(row: Row, reranker: Mapping[str, Any]) -> str:
    model = _model(reranker)
    trust = "" if row.trust is None else f", trust={row.trust}"
    named = {"policy": row.policy, "batch": row.batch_size or row.budget, "trust": trust}
    text = _FACADE.format(model=repr(model) if model else "score", docs=row.budget, **named)
    if not model:
        return text
    before, _, rest = text.partition("\n\n\ndef ")
    return before + "\n\nreranker = " + rest.partition("\nreranker = ")[2]


def _serve(row: Row, reranker: Mapping[str, Any]) -> str:
    model = _model(reranker)
    flags = ["ragtune", "serve", "--store", "memory", "--model", model or "MODEL", "--docs", str(row.budget)]
    flags += ["--policy", row.policy, "--batch-size", str(row.batch_size or row.budget)]
    flags += [] if row.trust is None else ["--trust", str(row.trust)]
    named = {"usd_per_search_unit": "--usd-per-search-unit", "usd_per_1k_tokens": "--usd-per-1k-tokens"}
    if reranker.get("url"):
        named = {**_UPSTREAM, **named}
    flags += [part for name, flag in named.items() if reranker.get(name) for part in (flag, str(reranker[name]))]
    note = "" if model else "# MODEL: your cross-encoder (a folder or a hub name), or your rerank server's address\n"
    return note + shlex.join(flags) + "\n"


def _model(reranker: Mapping[str, Any]) -> str | None:
    """What facade and server know it by: a cross-encoder's folder or hub name, or a rerank server's address."""
    is_cross_encoder = str(reranker["_target_"]).endswith(".CrossEncoderReranker")
    return str(reranker["model"]) if is_cross_encoder else reranker.get("url")
