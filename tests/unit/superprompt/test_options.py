"""Options: one schema, its documented file, files over defaults, and messages about bad ones."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ragtune.core.errors import ConfigError
from ragtune.superprompt.memory.documents import DocumentMemory
from ragtune.superprompt.options import load_options
from ragtune.superprompt.options import AGENT_STAGES
from ragtune.superprompt.parts import make_pipeline
from ragtune.superprompt.options import parse_change, parse_options, write_options

EXAMPLE = Path(__file__).parents[3] / "docs" / "prompt-options.yaml"


def names(values: dict[str, Any], above: str = "") -> set[str]:
    """Every option with its full name."""
    found = {f"{above}{name}" for name in values}
    return found.union(*(names(value, f"{above}{n}.") for n, value in values.items() if isinstance(value, dict)))


def test_the_documented_file_has_every_option_with_its_meaning_and_the_defaults() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    assert load_options(EXAMPLE) == load_options()
    assert names(parse_options(text)) - {"memory.dsn"} == names(parse_options(write_options(load_options())))
    lines = text.split("\n")
    bare = [line for above, line in pairwise(lines) if line.strip() and "#" not in above + line]
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
    tone = {"prompt_schema": {"defaults": {"tone": "dry"}}}
    assert load_options(None, parse_options(write_options(options)), tone) == options


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rerankr: {}", "rerankr: there is no such option; did you mean reranker"),
        ("llm: {temprature: 1}", "llm.temprature: .*did you mean temperature"),
        ("limits: {N9: 1}", "limits.N9: .*allowed are N0_QUERY_PIECES"),
        ("llm_off: maybe", "llm_off=.maybe.: Input should be 'default' or 'refuse'"),
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
    assert "secret" not in write_options(load_options(None, {"memory": {"dsn": "postgresql://me:secret@host/db"}}))


def _pipeline(**changes: Any) -> dict[str, Any]:
    llm = {"model": "m", "mode": "live", "base_url": "http://127.0.0.1:9", "api_key_env": "NO_KEY"}
    options = load_options(None, {"llm": llm}, changes)
    return dict(make_pipeline(options, DocumentMemory()).stages)


def test_only_the_named_stages_ask_the_model_and_a2_looks_twice() -> None:
    stages = _pipeline(llm={"stages": ["A3_NLI_Gate"]}, a2_passes=2)
    assert [name for name in AGENT_STAGES[1:] if stages[name].agent is not None] == ["A3_NLI_Gate"]
    assert all(_pipeline()[name].agent is not None for name in AGENT_STAGES[1:])
