"""Rule E14, criterion by criterion, with and without a language model."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from superprompt_agents import agent_client, agent_pipeline, semantic

from ragtune.core.request.clock import MonotonicClock
from ragtune.core.request.context import CostMeter
from ragtune.core.types import ScoredDocument
from ragtune.superprompt import Pipeline, PipelineConfig, SuperPrompt, Turn
from ragtune.superprompt.memory.documents import DocumentMemory
from ragtune.superprompt.stages.reranker import BaseRerankStage, Reranked

PROMPT = "## Task\nWhy is my bread gummy?\n\n## Ambition\nA better loaf\n\n## Format\na list\n\n## Rules\nBe true."
TURNS = (Turn(role="user", content="My bread is gummy."), Turn(role="assistant", content="Hm."))
DOCUMENTS = {f"d{i:02}.txt": f"Bread {i} is gummy. It was cut hot after {i} minutes." for i in range(40)}
WITH_MODEL = pytest.mark.parametrize("with_model", [True, False], ids=["model", "no model"])


class Counting(BaseRerankStage):
    """Turns the order round and counts what it is given."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def order(self, body: Mapping[str, str], candidates: Sequence[ScoredDocument], meter: CostMeter) -> Reranked:
        self.seen.append(len(candidates))
        return Reranked([doc.id for doc in reversed(candidates)], {})


@pytest.fixture(scope="module")
def memory() -> DocumentMemory:
    return DocumentMemory.from_texts(DOCUMENTS, PipelineConfig.load().chunking)


def complete(pipeline: Pipeline) -> SuperPrompt:
    return pipeline.run_all(SuperPrompt.raw(PROMPT, TURNS))


@WITH_MODEL
def test_7_1_running_the_full_chain_twice_is_byte_identical(
    llm_server: Any, memory: DocumentMemory, with_model: bool
) -> None:
    def run() -> SuperPrompt:
        client = agent_client(llm_server) if with_model else None
        return complete(agent_pipeline(memory, client, semantic(PipelineConfig.load()), clock=MonotonicClock()))

    one, two = run(), run()
    for field in ("body", "views_by_stage", "final_selection_ids", "s_ctx_md", "prompt_ready"):
        assert repr(getattr(one, field)) == repr(getattr(two, field))
    asked = [(request.body["temperature"], request.body["seed"]) for request in llm_server.requests]
    assert set(asked) == ({(0.0, 0)} if with_model else set())


@WITH_MODEL
def test_7_2_chunks_are_unique_and_no_stage_changes_one(
    llm_server: Any, memory: DocumentMemory, with_model: bool
) -> None:
    pipeline = agent_pipeline(memory, agent_client(llm_server) if with_model else None)
    seen: dict[str, str] = {}

    def check(name: str, sp: SuperPrompt) -> None:
        assert len({chunk.id for chunk in sp.base_context_chunks}) == len(sp.base_context_chunks)
        for chunk in sp.base_context_chunks:
            assert seen.setdefault(chunk.id, chunk.model_dump_json()) == chunk.model_dump_json()

    pipeline.run_all(SuperPrompt.raw(PROMPT, TURNS), after=check)
    assert len(seen) == len(DOCUMENTS) + 1


@WITH_MODEL
@pytest.mark.parametrize(("n1", "n2", "n3"), [(200, 50, 24), (30, 20, 5), (1, 1, 1)])
def test_7_3_every_stage_respects_the_n_constants(
    llm_server: Any, memory: DocumentMemory, with_model: bool, n1: int, n2: int, n3: int
) -> None:
    config = PipelineConfig.load(n1_retr_max_candidates=n1, n2_rerank_top_k=n2, n3_final_selection_max=n3)
    counting = Counting()
    client = agent_client(llm_server) if with_model else None
    sp = complete(agent_pipeline(memory, client, config, rerank_stage=counting))
    available = len(DOCUMENTS) + 1  # the second turn has nothing in common with the prompt
    assert len(sp.views_by_stage["retrieval"]) == min(n1, available)
    assert counting.seen == [min(n1, n2, available)]
    assert 1 <= len(sp.final_selection_ids) <= n3


def test_7_4_without_a_model_each_agent_has_a_logged_default(memory: DocumentMemory) -> None:
    done = complete(agent_pipeline(memory, config=semantic(PipelineConfig.load())))
    assert done.stage == "a5"
    assert done.extras["semantic_used"]["reason"] == "llm_off"
    assert {log["reason"] for log in done.extras["llm"].values()} == {"llm_off"}
    assert len(done.extras["llm"]) == 4


@WITH_MODEL
@pytest.mark.parametrize("documents", [DOCUMENTS, {}], ids=["found", "nothing found"])
def test_7_5_the_final_prompt_always_has_its_blocks(
    llm_server: Any, with_model: bool, documents: dict[str, str]
) -> None:
    memory = DocumentMemory.from_texts(documents, PipelineConfig.load().chunking)
    pipeline = agent_pipeline(memory, agent_client(llm_server) if with_model else None)
    sp = pipeline.run_all(SuperPrompt.raw(PROMPT))
    headings = [line for line in sp.prompt_ready.split("\n") if line.startswith("# ")]
    assert headings == ["# System", "# Prompt", "# S_CTX", "# Attachments"]
    blocks = dict(zip(headings, sp.prompt_ready.split("\n\n# "), strict=True))
    assert all(len(block.split("\n", 1)[1].strip()) > 0 for block in blocks.values())
    assert "You are" in blocks["# System"]
    assert "- Be true." in blocks["# System"]
    assert "Why is my bread gummy?" in blocks["# Prompt"]
    assert sp.s_ctx_md in sp.prompt_ready
    for number, chunk in enumerate(sp.chunks(sp.final_selection_ids), start=1):
        head = f"SOURCE: memory {chunk.id}\nSPAN: {chunk.start}-{chunk.end}\n[[begin attachment {number} "
        assert head in blocks["# Attachments"]
    assert bool(sp.final_selection_ids) == bool(documents)
