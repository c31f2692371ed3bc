"""Score tables made by a live reranker, replayed."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from experiments.config.compose import compose
from experiments.prepare.score_table import write_score_table
from experiments.prepare.scoring import Order
from experiments.replay.build import build_session
from ragtune.core.errors import ConfigError


def _config(collection: Path, *more: str) -> dict:
    return compose(["dataset=beir", f"dataset.path={collection}", "estimator=baseline", *more])


@pytest.mark.parametrize("pairs", ["pool", "all"])
def test_a_live_rerankers_table_replays_its_scores(
    collection: Path, tiny_cross_encoder: str, tmp_path: Path, pairs: str
) -> None:
    live = _config(
        collection, "reranker=cross_encoder", f"reranker.model={tiny_cross_encoder}", "reranker.max_length=64"
    )
    table = tmp_path / "tiny.parquet"
    assert write_score_table(live, Order(table, pairs)) == 0
    documents = len(build_session(live).dataset.corpus)

    manifest = json.loads((tmp_path / "tiny.parquet.manifest.json").read_text(encoding="utf-8"))
    assert manifest["pairs"] == 4 * documents if pairs == "all" else manifest["pairs"] > 0
    assert manifest["scale"] == "identity"
    assert manifest["text_hash"] == build_session(live).dataset.corpus.digest
    assert manifest["tokens_per_doc"] > 0
    replayed = build_session(_config(collection, "reranker=replay", f"reranker.scores={table}"))
    query_id, query = next(iter(replayed.dataset.queries.items()))
    output = replayed.controller.run(query, query_id=query_id)
    again = build_session(live).controller.run(query, query_id=query_id)
    ours = {doc.id: doc.reranker_score for doc in output.documents}
    assert ours == pytest.approx({doc.id: doc.reranker_score for doc in again.documents}, abs=1e-4)


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
