"""The SuperPrompt pipeline as something that experiments replay."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.config.compose import compose
from experiments.config.run_config import RunConfig
from experiments.evaluate.record import UNITS, QueryRecord
from experiments.replay.component import component
from experiments.replay.inputs import identity
from experiments.replay.journal import Journal
from experiments.replay.records import replay
from experiments.replay.subjects.prompt_record import VIEW_POSITIONS
from ragtune.core.errors import ConfigError, StageError
from ragtune.data.corpus import Corpus
from ragtune.superprompt import SuperPrompt
from ragtune.superprompt.build import build_pipeline
from ragtune.superprompt.memory.documents import DocumentMemory

DOCS, TOKENS = UNITS.index("docs"), UNITS.index("tokens")

BROKEN = """
from ragtune.rerankers.noop import NoOpReranker

class Broken(NoOpReranker):
    def rerank(self, items, context, strategy):
        raise RuntimeError("the model server is on fire")
"""


@pytest.fixture
def compose_pipeline(collection: Path) -> Callable[..., dict[str, Any]]:
    def make(*overrides: str) -> dict[str, Any]:
        dataset = ["dataset=beir", f"dataset.path={collection}", f"dataset.scores={collection}/scores.run"]
        return compose([*dataset, "tracking=none", *overrides], "pipeline")

    return make


@pytest.fixture
def run(compose_pipeline: Callable[..., dict[str, Any]], tmp_path: Path) -> Callable[..., dict[str, QueryRecord]]:
    def replay_all(*overrides: str) -> dict[str, QueryRecord]:
        config = RunConfig(compose_pipeline(*overrides))
        (tmp_path / "journal").mkdir(exist_ok=True)
        with Journal(tmp_path / "journal", identity(config), resume=False) as journal:
            subject = component(config, "subject")
            queries = list(subject.open(config).queries)
            replay(
                subject,
                component(config, "executor"),
                config,
                queries,
                journal,
                lambda done, total: None,
                lambda query_id: None,
            )
            journal.remove()
        return {**journal.finished}

    return replay_all


def add_query(collection: Path, query_id: str, text: str) -> None:
    with (collection / "queries.jsonl").open("a") as file:
        file.write(json.dumps({"_id": query_id, "text": text}) + "\n")


def view(record: QueryRecord, name: str) -> list[str]:
    return record.ranking_at(VIEW_POSITIONS[name])


BUDGETED = ("rerank_stage=budgeted", "estimator=baseline", "assembler.ordering=reranked_first")


@pytest.mark.parametrize("policy", [("rerank_stage=none",), ("rerank_stage=top",), BUDGETED])
def test_the_views_of_a_record_are_those_of_the_stages(
    run: Callable[..., dict[str, QueryRecord]], corpus: Corpus, policy: tuple[str, ...]
) -> None:
    record = run(*policy)["q1"]
    pipeline = build_pipeline(memory=DocumentMemory.from_corpus(corpus), rerank_stage=None)
    alone = pipeline.run_all(SuperPrompt.raw("what lowers blood pressure"))
    retrieved = [chunk_id.removesuffix("#0") for chunk_id in alone.views_by_stage["retrieval"]]
    assert view(record, "retrieval") == record.doc_ids == retrieved
    assert sorted(view(record, "reranked")) == sorted(retrieved)
    assert set(view(record, "a4")) <= set(view(record, "a3")) <= set(view(record, "reranked"))
    assert record.ranking == view(record, "a4")
    assert record.context_docs == len(record.ranking) > 0
    assert record.context_tokens == sum(corpus.scored(doc_id, 0.0).token_count for doc_id in record.ranking)


def test_recorded_scores_order_the_documents(run: Callable[..., dict[str, QueryRecord]]) -> None:
    assert view(run("rerank_stage=top")["q1"], "reranked")[:3] == ["heart-2", "heart-3", "heart-1"]


def test_without_reranking_the_order_is_retrievals_and_nothing_is_charged(
    run: Callable[..., dict[str, QueryRecord]],
) -> None:
    for record in run("rerank_stage=none").values():
        assert view(record, "reranked") == view(record, "retrieval")
        assert list(record.charged) == [0.0] * len(UNITS)


def test_a_budget_that_allows_all_gives_what_the_fixed_depth_gives(run: Callable[..., dict[str, QueryRecord]]) -> None:
    limits = "retriever.limits.N2_RERANK_TOP_K=3"
    fixed, free = run("rerank_stage=top", limits), run(*BUDGETED, "scheduler=one_shot", limits)
    for query_id, record in free.items():
        assert record.ranking == fixed[query_id].ranking
        assert record.charged[DOCS] == fixed[query_id].charged[DOCS] <= 3


def test_the_budget_is_kept_and_every_batch_is_a_state(run: Callable[..., dict[str, QueryRecord]]) -> None:
    record = run(*BUDGETED, "budget=tight", "budget.max_reranker_docs=3", "scheduler.batch_size=1")["q1"]
    assert [cost[DOCS] for cost in record.costs] == [0, 1, 2, 3, 3, 3]
    assert record.stop["reason"] == "budget_exhausted"
    assert record.rankings[-3].tolist() == [record.doc_ids.index(doc_id) for doc_id in view(record, "reranked")]
    assert list(record.actual) == [0] * len(UNITS)


def test_what_knows_queries_and_documents_by_id_works_in_the_pipeline(
    run: Callable[..., dict[str, QueryRecord]],
) -> None:
    record = run(*BUDGETED, "estimator=qrels_oracle", "budget=tight", "budget.max_reranker_docs=1")["q1"]
    assert record.ranking[0] == "heart-2"  # the best judged, and the only one reranked


def test_traces_tell_every_stage_and_the_decisions_in_between(run: Callable[..., dict[str, QueryRecord]]) -> None:
    for overrides in ((*BUDGETED,), ("rerank_stage=top",)):
        trace = json.loads(run(*overrides)["q1"].trace)
        assert trace["query_id"] == "q1"
        stages = [event["details"]["name"] for event in trace["events"] if event["action"] == "stage"]
        assert stages == list(build_pipeline(rerank_stage=None).stages)
        actions = [event["action"] for event in trace["events"]]
        assert actions.index("rerank") < actions.index("stop")
        stamps = [event["timestamp"] for event in trace["events"]]
        assert stamps == sorted(stamps)


def test_a_prompt_that_is_refused_is_a_record_without_documents(
    run: Callable[..., dict[str, QueryRecord]], collection: Path
) -> None:
    add_query(collection, "odd", "Context: a header without a task")
    record = run("rerank_stage=top")["odd"]
    assert [record.ranking_at(position) for position in VIEW_POSITIONS.values()] == [[], [], [], []]
    assert record.stop["reason"] == "refused"
    assert "no task" in record.stop["details"]["error"]


def test_a_prompt_that_finds_nothing_goes_through_without_documents(
    run: Callable[..., dict[str, QueryRecord]], collection: Path
) -> None:
    add_query(collection, "odd", "zzyzx qwrtp")
    record = run("rerank_stage=top")["odd"]
    assert (record.ranking, record.stop["reason"], record.charged[DOCS]) == ([], "no_candidates", 0)


def test_a_score_that_was_never_recorded_is_an_error_that_names_query_and_document(
    run: Callable[..., dict[str, QueryRecord]], collection: Path
) -> None:
    add_query(collection, "new", "honey bread")
    with pytest.raises(StageError, match=r"query 'new', stage ReRanker: .*'new'"):
        run("rerank_stage=top")


def test_a_defect_is_raised_as_it_is(
    run: Callable[..., dict[str, QueryRecord]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_reranker.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(RuntimeError, match="on fire"):
        run("rerank_stage=top", "reranker=noop", "reranker._target_=broken_reranker.Broken")


ANSWER = {
    "system": "teacher",
    "items": [{"id": 1, "decision": "drop_irrelevant", "certainty": 1.0}],
    "s_ctx_md": "- a fact [1]",
    "normalized_format_spec": "Prose.",
}


def test_with_a_language_model_its_stages_decide_and_are_charged_and_their_record_replays(
    run: Callable[..., dict[str, QueryRecord]], llm_server: Any, tmp_path: Path
) -> None:
    llm_server.answer(json.dumps(ANSWER))
    llm = ["llm=local", "llm.model=test", f"llm.base_url={llm_server.url}", f"llm.cache_dir={tmp_path}/record"]
    off, on = run("rerank_stage=none"), run("rerank_stage=none", *llm)
    for query_id, record in on.items():
        assert view(record, "a3") == view(off[query_id], "reranked")[1:]
    assert sum(record.charged[TOKENS] for record in on.values()) == llm_server.billed_tokens > 0
    sent = len(llm_server.requests)
    again = run("rerank_stage=none", *llm, "llm.mode=replay")
    assert len(llm_server.requests) == sent
    assert [record.ranking for record in again.values()] == [record.ranking for record in on.values()]
    assert [record.charged for record in again.values()] == [record.charged for record in on.values()]
    assert all(record.actual[TOKENS] == 0 for record in again.values())


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (("signal=lexical",), "signal=lexical: .*allowed is none"),
        (("retriever=bm25",), "retriever=bm25: .*allowed is superprompt"),
        (("reformulator=rm3",), "reformulator=rm3: .*allowed is identity"),
        (("clock=virtual",), "clock='virtual': .*allowed is auto"),
        (("rerank_stage=top", "budget=tight"), "budget.max_reranker_docs=20.*: rerank_stage=top has no budget"),
        (("rerank_stage=none", "budget.max_cost_usd=1"), "budget.max_cost_usd=1: rerank_stage=none has no budget"),
        (("rerank_stage=top", "+reranker@rerankers.more=noop"), "rerankers=more: rerank_stage=top"),
        (("retriever.limits.N2_RERANK_TOP_K=0",), "N2_RERANK_TOP_K=0: .*greater than"),
        (("retriever.config=/no/such.json",), "'/no/such.json' cannot be read"),
    ],
)
def test_what_the_pipeline_has_no_place_for_is_refused(
    compose_pipeline: Callable[..., dict[str, Any]], overrides: tuple[str, ...], said: str
) -> None:
    config = RunConfig(compose_pipeline(*overrides))
    with pytest.raises(ConfigError, match=said):
        component(config, "subject").open(RunConfig(config))


def test_without_the_pipelines_own_options_the_subject_says_where_they_are() -> None:
    config = compose(["subject=pipeline", "retriever=superprompt"])
    with pytest.raises(ConfigError, match=r"ragtune pipeline"):
        component(config, "subject").open(RunConfig(config))


@pytest.mark.parametrize(
    ("overrides", "label", "tags"),
    [
        (
            ("rerank_stage=none",),
            "pipeline, none, N2 50",
            {"rerank_stage": "none", "estimator": "none", "reranker": "none"},
        ),
        (
            ("rerank_stage=top", "retriever.limits.N2_RERANK_TOP_K=7"),
            "pipeline, top, N2 7",
            {"rerank_stage": "top", "estimator": "none"},
        ),
        (
            BUDGETED,
            "pipeline, budgeted, baseline + greedy + reranked_first, N2 50",
            {"rerank_stage": "budgeted", "llm": "off"},
        ),
    ],
)
def test_labels_and_tags_say_what_took_part(
    compose_pipeline: Callable[..., dict[str, Any]], overrides: tuple[str, ...], label: str, tags: dict[str, str]
) -> None:
    config = RunConfig(compose_pipeline(*overrides))
    subject = component(config, "subject")
    assert subject.label(config) == label
    assert tags.items() <= subject.tags(config).items()


def test_a_forecast_is_refused(compose_pipeline: Callable[..., dict[str, Any]]) -> None:
    config = RunConfig(compose_pipeline("dry_run=true"))
    with pytest.raises(ConfigError, match="dry_run=true"):
        component(config, "subject").forecast(config, lambda done, total: None)


@pytest.mark.parametrize(("policy", "apart"), [("scheduler=greedy", True), ("experiment=plackett_luce", False)])
def test_batches_of_a_rerank_stage_that_share_no_document_are_told_of(
    compose_pipeline: Callable[..., dict[str, Any]], policy: str, apart: bool
) -> None:
    config = RunConfig(compose_pipeline("rerank_stage=budgeted", "reranker=simulated", policy))
    assert component(config, "subject").compares_apart(config) is apart
