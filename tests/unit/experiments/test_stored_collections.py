"""Large collections: a text is read where something reads it, tokens are counted once, processes share the files."""

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from shard_work import mapped_files

from experiments.cli.experiment import run_experiment
from experiments.config.options import RunConfig
from experiments.datasets import beir
from experiments.evaluate import baselines
from experiments.replay import build
from experiments.replay.executors import JoblibExecutor
from experiments.replay.records import replay_shard
from ragtune.data import corpus, storedcorpus

QUERY_IDS = ["q1", "q2", "q3", "q4"]


@pytest.mark.parametrize("policy", ["experiment=fixed_depth", "scheduler=greedy"])
def test_a_replay_of_recorded_scores_reads_no_text_and_counts_no_token(
    policy: str, collection: Path, compose_tiny: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = collection / "corpus.jsonl"  # a document without tokens counts as one that nobody has counted
    documents.write_text(documents.read_text().replace('"text": ""', '"text": "words"'))
    config = compose_tiny(policy, "budget.max_tokens=200")
    expected = _lines(config)
    monkeypatch.setattr(beir, "STORED_FROM", 1)
    _lines(config)  # is the first to read the collection
    monkeypatch.setattr(storedcorpus, "Document", None)
    for module in (storedcorpus, corpus):
        monkeypatch.setattr(module, "count_tokens", None)
    assert _lines(config) == expected


def _lines(config: dict[str, Any]) -> list[bytes]:
    """The records as they are written, of a process that has loaded nothing yet."""
    for known in (build._load_dataset, build._session):
        known.cache_clear()
    return [record.to_line() for record in replay_shard(RunConfig(config), QUERY_IDS)]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux says what a process has mapped")
def test_workers_map_the_files_that_the_driver_has_mapped(
    collection: Path, private_cache: Path, compose_tiny: Callable[..., dict[str, Any]]
) -> None:
    with (collection / "corpus.jsonl").open("a") as out:
        out.writelines(json.dumps({"_id": f"more-{i}", "text": "word " * 100}) + "\n" for i in range(2_500))
    for name in ("bm25.run", "scores.run"):
        with (collection / name).open("a") as out:
            out.writelines(f"q1 Q0 more-{i} {i + 20} {1 / (i + 20)} {'tag' * 100}\n" for i in range(2_000))
    work = partial(mapped_files, str(private_cache), RunConfig(compose_tiny("experiment=fixed_depth")))
    (mine,) = work(["q1"])
    theirs = [each for shard in JoblibExecutor(n_jobs=2).run(work, QUERY_IDS) for each in shard]
    assert os.getpid() not in {pid for pid, _ in theirs}
    assert {files for _, files in theirs} == {mine[1]}
    assert {file.rpartition("/")[2] for file in mine[1]} >= {"texts.utf8", "tokens.npy", "scores.npy"}


@pytest.mark.parametrize(
    "options", [[], ["dataset.every=2"], ["dataset.split=null"], ["executor=joblib", "executor.n_jobs=2"]]
)
def test_files_are_the_same_wherever_columns_are_kept(
    compose_tiny: Callable[..., dict[str, Any]],
    collection: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
) -> None:
    with (collection / "queries.jsonl").open("a") as queries:
        queries.write('{"_id": "q0-unjudged", "text": "heart"}\n{"_id": "q11", "text": "ship"}\n')
    with (collection / "qrels" / "test.tsv").open("a") as qrels:
        qrels.write("q11\tship-1\t1\n")
    run_experiment(compose_tiny("verbosity=0", *options), tmp_path / "held", [])
    for read in (build._session, build._shared, build._load_dataset, build._load_measures):
        read.cache_clear()
    monkeypatch.setattr(beir, "STORED_FROM", 1)
    monkeypatch.setattr(baselines, "TOGETHER", 2)
    run_experiment(compose_tiny("verbosity=0", *options), tmp_path / "stored", [])
    for name in ("run.trec", "per_query.parquet", "curve.csv", "traces.jsonl.gz"):
        assert (tmp_path / "stored" / name).read_bytes() == (tmp_path / "held" / name).read_bytes()
