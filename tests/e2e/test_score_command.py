"""ragtune score: what it costs, limits, kills and failures; nothing that was scored is lost or done twice."""

import json
import os
import signal
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from patience import HANG_S, wait_until

from experiments.config.compose import compose
from experiments.prepare.score_table import write_score_table
from experiments.prepare.scoring import Order
from ragtune.core.errors import ConfigError
from ragtune.rerankers.score_table import ScoreTable

Live = Callable[..., list[str]]
Run = Callable[..., SimpleNamespace]
SCRIPT = "scripts/score_table.py"


@pytest.fixture
def live(tiny: list[str], collection: Path) -> Live:
    """The options of a reranker that counts as live and gives the recorded scores."""

    def make(kind: str, *more: str) -> list[str]:
        return [*tiny, f"reranker._target_=misbehaving.{kind}", f"reranker.scores={collection}/scores.run", *more]

    return make


def scored_queries(table: Path) -> list[str]:
    file = table.with_name(f"{table.name}.partial") / "journal.jsonl"
    lines = file.read_bytes().split(b"\n")[1:-1] if file.exists() else []
    return [json.loads(line.partition(b"\t")[0])["query_id"] for line in lines]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_after_a_kill_only_the_rest_is_scored(
    live: Live, start: Callable, run_here: Run, tmp_path: Path, number: int
) -> None:
    table, log = tmp_path / "t.run", tmp_path / "log"
    command = ["--out", str(table), *live("LiveSlow", "+reranker.seconds=0")]
    process = start(*command, cwd=tmp_path, script=SCRIPT, RERANK_LOG=str(log), HANG_AT="q3")
    wait_until(lambda: scored_queries(table) or process.poll() is not None)
    os.killpg(process.pid, number)
    _, err = process.communicate(timeout=HANG_S)
    kept = scored_queries(table)
    assert 1 <= len(kept) < 4, err
    assert not table.exists()
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert err.endswith("error: interrupted; what was scored is kept: repeat the command to go on\n")
    before = Counter(log.read_text().split())

    refused = run_here(*command, "retrieval.original_query_depth=3", cwd=tmp_path, script=SCRIPT, RERANK_LOG=str(log))
    assert refused.code == 2
    assert "was begun with another configuration: repeat that command's options, or choose another --out" in refused.err
    again = run_here(*command, cwd=tmp_path, script=SCRIPT, RERANK_LOG=str(log))
    assert again.code == 0, again.err
    assert f"(of 48: {12 * len(kept)} are scored already); " in again.err
    assert again.out == f"48 pairs of 4 queries: {table}\n"
    assert set(Counter(log.read_text().split()) - before) == {"q1", "q2", "q3", "q4"} - set(kept)
    assert sorted(file.name for file in tmp_path.glob("t.run*")) == ["t.run", "t.run.manifest.json"]

    truth = ScoreTable(tmp_path / "tiny" / "scores.run")
    assert {query: truth.of_query(query) for query in ("q1", "q2", "q3", "q4")} == {
        query: ScoreTable(table).of_query(query) for query in ("q1", "q2", "q3", "q4")
    }
    done = run_here(*command, cwd=tmp_path, script=SCRIPT, RERANK_LOG=str(log))
    assert (done.code, done.err) == (0, "nothing to do: this table is complete; delete it to score again\n")


def test_its_cost_is_told_first_and_limits_stop_it(live: Live, run_here: Run, tmp_path: Path) -> None:
    def score(*options: str, price: float | str = 0.01) -> SimpleNamespace:
        priced = live("LiveSlow", "+reranker.seconds=0", f"reranker.usd_per_doc={price}", "reranker.ms_per_doc=500")
        return run_here(*options, *priced, cwd=tmp_path, script=SCRIPT, RERANK_LOG=str(tmp_path / "log"))

    first = score("--out", "new/t.run", "--dry-run")
    assert (first.code, first.out) == (0, "")
    assert first.err.splitlines()[-1].startswith("to score: 48 pairs of 4 queries; 4 calls, ")
    assert first.err.endswith("tokens, $0.4800, about 24 s\n")
    assert not (tmp_path / "new").exists()

    refused = score("--out", "new/t.run", "--max-usd", "1", price="null")
    assert refused.code == 2
    assert "--max-usd 1.0: nothing has a price" in refused.err
    assert not (tmp_path / "new").exists()
    assert score("--out", "new/t.run", "--max-docs", "0").code == 2
    form = score("--out", "new/t.xlsx")
    assert form.code == 2
    assert "allowed are names that end in .parquet or .run" in form.err

    some = score("--out", "new/t.run", "--max-usd", "0.155")
    assert (some.code, some.out) == (0, "15 pairs of 2 queries: new/t.run; paid $0.1500\n")
    assert some.err.endswith(
        "stopped by --max-usd 0.155: 33 pairs have no score yet; repeat the command to score the rest\n"
    )
    more = score("--out", "new/t.run", "--max-docs", "10")
    assert more.out.startswith("25 pairs of 3 queries: ")
    rest = score("--out", "new/t.run")
    assert (rest.code, rest.out) == (0, "48 pairs of 4 queries: new/t.run; paid $0.2300\n")
    manifest = json.loads((tmp_path / "new" / "t.run.manifest.json").read_text())
    assert manifest["usd_per_doc"] == pytest.approx(0.01)
    assert "missing_pairs" not in manifest


def test_what_the_reranker_fails_on_is_named_and_costs_nothing_else(live: Live, run_here: Run, tmp_path: Path) -> None:
    run = tmp_path / "some.run"
    lines = ["q1 Q0 heart-1 1 2 x", "q2 Q0 ship-1 1 2 x", "q3 Q0 honey-1 1 2 x", "q3 Q0 ship-1 2 1 x"]
    run.write_text("".join(f"{line}\n" for line in lines))
    broken = live("LiveBroken", "+reranker.on=ship-1", f"retriever.paths={run}", "failures.requests_in_a_row=3")
    failed = run_here("--out", "t.parquet", *broken, cwd=tmp_path, script=SCRIPT)
    assert (failed.code, failed.out) == (1, "1 pairs of 1 queries: t.parquet\n")
    assert failed.err.endswith(
        "error: 3 pairs have no score: query q2 (1 documents): the model server is on fire; query q3 (2 documents): "
        "the model server is on fire; the others are kept: repeat the command to score the rest\n"
    )
    cured = run_here("--out", "t.parquet", *broken, cwd=tmp_path, script=SCRIPT, CURED="1")
    assert (cured.code, cured.out) == (0, "4 pairs of 3 queries: t.parquet\n")
    all_fail = live("LiveBroken", "+reranker.on=heart-1", f"retriever.paths={run}", "dataset.every=4")
    none = run_here("--out", "u.run", *all_fail, cwd=tmp_path, script=SCRIPT)
    assert none.code == 1
    assert none.err.endswith("error: no pair was scored: query q1 (1 documents): the model server is on fire\n")
    assert not list(tmp_path.glob("u.run*"))


def test_a_tables_times_are_those_of_the_model_whatever_the_cache_holds(
    collection: Path, tiny_cross_encoder: str, tmp_path: Path, private_cache: Path
) -> None:
    chosen = ["dataset=beir", f"dataset.path={collection}", "estimator=baseline", "reranker=cross_encoder"]
    live = compose([*chosen, f"reranker.model={tiny_cross_encoder}"])
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
