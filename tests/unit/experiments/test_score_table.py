"""Score tables made by a live reranker, replayed."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from experiments.config.compose import compose
from experiments.prepare.score_table import write_score_table
from experiments.prepare.scoring import Order
from ragtune.core.errors import ConfigError


def _config(collection: Path, *more: str) -> dict:
    return compose(["dataset=beir", f"dataset.path={collection}", "estimator=baseline", *more])


def test_a_tables_times_are_those_of_the_model_whatever_the_cache_holds(
    collection: Path, tiny_cross_encoder: str, tmp_path: Path, private_cache: Path
) -> None:
    live = _config(collection, "reranker=cross_encoder", f"reranker.model={tiny_cross_encoder}")
    totals = []
    for name in ("live", "cached"):
        table = tmp_path / f"{name}.parquet"
        assert write_score_table(live, Order(table)) == 0
        manifest = json.loads((tmp_path / f"{name}.parquet.manifest.json").read_text(encoding="utf-8"))
        assert manifest["usd_per_doc"] is None
        assert manifest["ms_per_call"] >= 0
        totals.append(manifest["ms_per_doc"] * manifest["pairs"] + manifest["ms_per_call"] * 4)
    with sqlite3.connect(private_cache / "scores" / "times.sqlite") as db:
        (kept,) = db.execute("SELECT sum(ms) FROM times").fetchone()
    assert totals == pytest.approx([kept] * 2, abs=0.01 * (manifest["pairs"] + 4))


@pytest.mark.parametrize("name", ["noop", "replay"])
def test_a_reranker_that_scores_nothing_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    config = compose([f"reranker={name}"])
    with pytest.raises(ConfigError, match=f"reranker={name} scores nothing: choose a live one"):
        write_score_table(config, Order(tmp_path / "tiny.parquet"))
