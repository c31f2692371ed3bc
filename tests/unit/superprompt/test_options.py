"""Options: one schema, its example file, files over defaults, and what is told of a bad one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragtune.core.errors import ConfigError
from ragtune.core.request.context import CostMeter
from ragtune.core.types import ScoredDocument
from ragtune.rerankers.function import FunctionReranker
from ragtune.superprompt.memory.documents import DocumentMemory
from ragtune.superprompt.options import load_options
from ragtune.superprompt.options.example import example_text
from ragtune.superprompt.options.model import AGENT_STAGES
from ragtune.superprompt.options.parts import make_pipeline, make_rerank_stage
from ragtune.superprompt.options.reading import make_options, parse_change, parse_options

EXAMPLE = Path(__file__).parents[3] / "docs" / "prompt-options.yaml"


def test_the_documented_example_is_made_from_the_schema_and_holds_the_defaults() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    assert text == example_text(load_options()), "ragtune prompt --print-config > docs/prompt-options.yaml"
    assert load_options(EXAMPLE) == load_options()


def test_every_option_is_in_the_example_with_its_meaning() -> None:
    lines = EXAMPLE.read_text(encoding="utf-8").split("\n")
    options = [n for n, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#")]
    bare = [lines[n] for n in options if "#" not in lines[n] and not lines[n - 1].lstrip().startswith("#")]
    assert [line.strip() for line in bare] == ["markdown:", "text:", "conversation:"]


def test_a_file_needs_only_what_differs_and_what_comes_later_stands(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "limits: {n0_query_pieces: 3}\nllm: {model: small, extra: {top_k: 1}}\nchunking: {text: {max_tokens: 90}}\n"
        "prompt_schema: {modes: {semantic_enabled: true}, defaults: {tone: dry}}\n"
    )
    options = load_options(file, parse_change("llm.mode=replay"), {"limits": {"N0_QUERY_PIECES": 4}})
    assert (options.limits.n0_query_pieces, options.llm.model, options.llm.mode) == (4, "small", "replay")
    assert (options.chunking.text.max_tokens, options.chunking.text.method) == (90, "paragraphs")
    assert options.prompt_schema.modes.semantic_enabled
    assert options.prompt_schema.defaults["tone"] == "dry"
    assert options.prompt_schema.defaults["depth"] == "standard"
    assert (
        make_options([parse_options(example_text(options)), {"prompt_schema": {"defaults": {"tone": "dry"}}}])
        == options
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rerankr: {}", "rerankr: there is no such option; did you mean reranker"),
        ("llm: {temprature: 1}", "llm.temprature: .*did you mean temperature"),
        ("limits: {N9: 1}", "limits.N9: .*allowed are N0_QUERY_PIECES"),
        ("llm_off: maybe", "llm_off='maybe': allowed are default, refuse"),
        ("a2_passes: 3", "a2_passes=3: allowed are 1, 2"),
        ("llm: {stages: [A3]}", "llm.stages.0='A3': allowed are A0_PreProcessing"),
        ("chunking: {text: {max_tokens: 9, overlap_tokens: 9}}", "allowed is less than max_tokens"),
        ("prompt_schema: {defaults: {task: x}}", "task and context are never invented"),
        ("[1]", "allowed are options"),
        ("a: [", "not YAML"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message) as error:
        load_options(file)
    assert str(file) in str(error.value)


def test_a_password_is_not_printed() -> None:
    assert "secret" not in example_text(load_options(None, {"memory": {"dsn": "postgresql://me:secret@host/db"}}))


def _pipeline(**changes: Any) -> dict[str, Any]:
    llm = {"model": "m", "mode": "live", "base_url": "http://127.0.0.1:9", "api_key_env": "NO_KEY"}
    options = load_options(None, {"llm": llm}, changes)
    return dict(make_pipeline(options, DocumentMemory()).stages)


def test_only_the_named_stages_ask_the_model_and_a2_looks_twice() -> None:
    stages = _pipeline(llm={"stages": ["A3_NLI_Gate"]}, a2_passes=2)
    assert [name for name in AGENT_STAGES[1:] if stages[name].agent is not None] == ["A3_NLI_Gate"]
    assert all(_pipeline()[name].agent is not None for name in AGENT_STAGES[1:])


def test_without_the_memorys_chunks_the_budget_still_holds() -> None:
    read: list[str] = []

    def score(query: str, texts: list[str]) -> list[float]:
        read.extend(texts)
        return [0.9 if "bread" in text else 0.1 for text in texts]

    options = load_options(None, {"reranker": {"kind": "budgeted", "budget": 4}})
    stage = make_rerank_stage(options.reranker, FunctionReranker(score), None)
    assert stage is not None
    texts = [f"bread {n}" if n % 3 else f"ship {n}" for n in range(12)]
    found = [ScoredDocument(id=f"d{n}", content=text, score=1.0 - n / 20) for n, text in enumerate(texts)]
    ordered = stage.order("bread", found, CostMeter())
    assert len(read) == 4
    assert sorted(ordered.ids) == sorted(doc.id for doc in found)
