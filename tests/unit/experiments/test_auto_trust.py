"""``estimator.trust=auto``: a first pass over a sample of queries sets the dial."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.cli.experiment import run_experiment
from experiments.config.compose import compose
from experiments.replay.build import session_for
from experiments.replay.inputs import identity
from ragtune.core.errors import ConfigError
from ragtune.rerankers.replay import ReplayReranker

QUERIES, DOCS = 40, 30


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("auto"), np.random.default_rng(0)
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td0\t1\n")
    (folder / "corpus.jsonl").write_text("".join(f'{{"_id": "d{i}", "title": "", "text": ""}}\n' for i in range(DOCS)))
    (folder / "queries.jsonl").write_text("".join(f'{{"_id": "q{i}", "text": "query {i}"}}\n' for i in range(QUERIES)))
    first, noise = rng.normal(size=(QUERIES, DOCS)), rng.normal(size=(QUERIES, DOCS))
    tables = {"bm25": first, "good": first + 2.0 * noise, "random": noise, "negated": -first - 2.0 * noise}
    for name, table in tables.items():
        rows = (f"q{q} Q0 d{d} 1 {score:.6f} {name}\n" for (q, d), score in np.ndenumerate(table))
        (folder / f"{name}.run").write_text("".join(rows))
    return folder


@pytest.mark.parametrize(("reranker", "trust"), [("good", 0.5), ("random", 0.0), ("negated", 0.0)])
def test_a_reranker_is_trusted_as_far_as_it_agrees_with_the_first_stage(
    data: Path, reranker: str, trust: float
) -> None:
    common = ["dataset=beir", f"dataset.path={data}", "retriever=runs", f"retriever.paths={data}/bm25.run"]
    scores = [f"reranker.scores={data}/{reranker}.run", "reranker.scale=logit", "experiment=uncertainty", "budget=20"]
    session = session_for(compose([*common, *scores, "estimator.trust=auto", "tracking=none"]))
    assert session.parts["estimator"].trust == trust
    assert session.first_pass.correlation.requests == QUERIES
    found = session.controller.run("query 7", query_id="q7")
    first = session_for(compose([*common, *scores, "estimator.trust=0", "tracking=none"]))
    assert (found.ranking == first.controller.run("query 7", query_id="q7").ranking) == (trust == 0.0)


def test_the_first_pass_scores_twenty_documents_of_the_runs_own_pools(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ten best and ten that are spread over the rest: at another depth, correlations would be of another pool."""
    asked: list[int] = []
    score = ReplayReranker.rerank

    def counting(self: ReplayReranker, items: Any, context: Any, strategy: str) -> dict[str, float]:
        asked.append(len(items))
        return score(self, items, context, strategy)

    monkeypatch.setattr(ReplayReranker, "rerank", counting)
    common = ["dataset=beir", f"dataset.path={data}", "retriever=runs", f"retriever.paths={data}/bm25.run"]
    scores = [f"reranker.scores={data}/good.run", "reranker.scale=logit", "experiment=uncertainty", "budget=5"]
    for depth, docs in ((30, 20), (15, 15), (4, 4)):
        asked.clear()
        depths = [f"retrieval.original_query_depth={depth}", "estimator.trust=auto", "tracking=none"]
        session_for(compose([*common, *scores, *depths]))
        assert asked == [docs] * QUERIES


def test_the_first_pass_is_in_the_bill_and_a_run_is_not_resumed_with_another_trust(data: Path, tmp_path: Path) -> None:
    common = ["dataset=beir", f"dataset.path={data}", "retriever=runs", f"retriever.paths={data}/bm25.run"]
    scores = [f"reranker.scores={data}/good.run", "reranker.scale=logit", "experiment=uncertainty", "budget=5"]
    config = compose([*common, *scores, "estimator.trust=auto", "tracking=none", "resume=true", "verbosity=0"])
    folder = tmp_path / "run"
    folder.mkdir()
    header = {**identity(config), "trust": 0.25, "version": 7}
    (folder / "journal.jsonl").write_text(json.dumps(header) + "\n")
    with pytest.raises(ConfigError, match=r"begun with trust 0\.25, and estimator\.trust=auto finds 0\.5 now"):
        run_experiment(config, folder, [])
    (folder / "journal.jsonl").write_text(json.dumps(header | {"trust": 0.5}) + "\n")
    run_experiment(config, folder, [])
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["cost_per_query"]["charged"]["docs"] == 5
    assert summary["cost"]["charged"]["docs"] == 5 * summary["queries_replayed"] + 20 * QUERIES
    assert summary["cost"]["actual"]["docs"] == 0  # recorded scores cost nothing


def test_a_first_stage_that_scores_all_alike_is_no_evidence_against_a_reranker(data: Path, tmp_path: Path) -> None:
    ties = tmp_path / "ties.run"
    ties.write_text("".join(f"q{q} Q0 d{d} 1 1.0 ties\n" for q in range(QUERIES) for d in range(DOCS)))
    common = ["dataset=beir", f"dataset.path={data}", "retriever=runs", f"retriever.paths={ties}"]
    scores = [f"reranker.scores={data}/good.run", "reranker.scale=logit", "experiment=uncertainty", "budget=20"]
    session = session_for(compose([*common, *scores, "estimator.trust=auto", "tracking=none"]))
    assert (session.first_pass.correlation.requests, session.parts["estimator"].trust) == (0, 0.5)
