"""Recorded scores of real rerankers: their scales are recognised, and their ties follow the rule that was chosen."""

import warnings
from pathlib import Path

import pytest

from experiments.config.compose import compose
from experiments.evaluate.measures import Measures
from experiments.evaluate.record import QueryRecord
from experiments.replay.build import build_session
from ragtune.core.errors import ScoreTableError
from ragtune.rerankers.score_table import ScoreTable

DATA = Path(__file__).parents[3] / "shared" / "data"

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not DATA.is_dir(), reason="the collections are not beside the checkout (../shared)"),
]

SCALES = {
    "ce": "identity",
    "minilm": "cosine",
    "e5": "cosine",
    "monot5-base": "log_prob",
    "monot5-3b": "log_prob",
    "tfrank-4b": "identity",
    "qwen-4b": "identity",
    "qwen-8b": "identity",
    "ielab-robertav1": "logit",
    "ihsm_colbert64": "rank",
    "pash_r1": "rank",
    "rankgpt-3.5.order": "rank",
    "rankvicuna-7b.order": "rank",
    "bge-reranker-base": "logit",
    "bge-reranker-large": "logit",
    "bge-reranker-v2-m3": "identity",
    "cross-encoder-mmarco-mMiniLMv2-L12-H384-v1": "logit",
    "japanese-reranker-cross-encoder-xsmall-v1": "identity",
    "ruri-reranker-large": "identity",
    "ruri-reranker-small": "identity",
    "static-embedding-japanese": "cosine",
    "text-embedding-3-small": "cosine",
}
"""What the README of the collections says of each table."""


def test_no_table_on_its_own_scale_is_refused_or_doubted() -> None:
    tables = sorted(DATA.glob("*/scores/*.run"))
    assert {table.stem for table in tables} <= SCALES.keys()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for table in tables:
            assert len(ScoreTable(table, SCALES[table.stem])) > 0


def test_no_table_of_probabilities_passes_as_logits() -> None:
    for table in sorted(DATA.glob("*/scores/*.run")):
        if SCALES[table.stem] in ("identity", "log_prob"):
            with pytest.raises(ScoreTableError, match=rf"use reranker\.scale={SCALES[table.stem]}"):
                ScoreTable(table, "logit")


@pytest.mark.parametrize(("ties", "expected"), [("first_stage", 0.126), ("trec_eval", 0.088)])
def test_bright_stack_overflow_has_the_published_figure_under_trec_evals_rule(ties: str, expected: float) -> None:
    folder = DATA / "bright-stackoverflow"
    reranker = [f"reranker.scores={folder / 'scores' / 'monot5-3b.run'}", "reranker.scale=log_prob"]
    first = ["dataset=beir", f"dataset.path={folder}", "retriever=runs", f"retriever.paths={folder / 'runs/bm25.run'}"]
    policy = ["experiment=fixed_depth", "budget=unlimited", "tracking=none"]
    session = build_session(compose([*first, *reranker, f"reranker.ties={ties}", *policy]))
    queries = session.dataset.queries
    records = [QueryRecord.of(session.controller.run(queries[q], query_id=q)) for q in session.dataset.judged]
    measures = Measures(["nDCG@10"], session.dataset.qrels)
    values = measures.of_states(record.states([-1]) for record in records)
    assert values.mean() == pytest.approx(expected, abs=0.0005)
