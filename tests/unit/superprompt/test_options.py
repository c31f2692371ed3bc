"""Options: one schema, its documented file, files over defaults, and messages about bad ones."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ragtune.core.errors import ConfigError
from ragtune.superprompt import PipelineConfig
from ragtune.superprompt.memory.documents import DocumentMemory
from ragtune.superprompt.options import AGENT_STAGES, load_options, parse_change, parse_options, write_options
from ragtune.superprompt.parts import make_pipeline

EXAMPLE = Path(__file__).parents[3] / "docs" / "prompt-options.yaml"


def names(values: dict[str, Any], above: str = "") -> set[str]:
    found = {f"{above}{name}" for name in values}
    return found.union(*(names(value, f"{above}{n}.") for n, value in values.items() if isinstance(value, dict)))


def test_the_documented_file_has_every_option_with_its_meaning_and_the_defaults() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    assert load_options(EXAMPLE) == load_options()
    assert names(parse_options(text)) - {"memory.dsn"} == names(parse_options(write_options(load_options())))
    lines = text.split("\n")
    bare = [line for above, line in pairwise(lines) if line.strip() and "#" not in above + line]
    assert [line.strip() for line in bare] == ["markdown:", "text:", "conversation:"]


def test_the_defaults_are_those_of_the_spec() -> None:
    limits = PipelineConfig.load().limits.model_dump(by_alias=True)
    spec = {"N0_QUERY_PIECES": 5, "N1_RETR_MAX_CANDIDATES": 200, "N2_RERANK_TOP_K": 50, "N3_FINAL_SELECTION_MAX": 24}
    assert {name: limits[name] for name in spec} == spec
    assert 8 <= limits["N4_RECENT_CONV_MAX_PAIRS"] <= 12
    assert limits["LOG_AVG_EXP_TAU"] == 9


def test_a_limit_is_a_matter_of_configuration_and_one_that_is_not_allowed_is_refused_by_name() -> None:
    assert PipelineConfig.load(n1_retr_max_candidates=7).limits.n1_retr_max_candidates == 7
    wrong: dict[str, float]
    for wrong in ({"n0_query_pieces": 0}, {"log_avg_exp_tau": 0}, {"piece_slack": 0.5}, {"n9": 1}):
        with pytest.raises(ConfigError, match=next(iter(wrong)).upper()):
            PipelineConfig.load(**wrong)


def test_a_file_needs_only_what_differs_and_what_comes_later_stands(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "limits: {N0_QUERY_PIECES: 3}\nllm: {model: small, extra: {top_k: 1}}\nchunking: {text: {max_tokens: 90}}\n"
        "prompt_schema: {modes: {semantic_enabled: true}, defaults: {tone: dry}}\n"
    )
    options = load_options(file, parse_change("llm.mode=replay"), {"limits": {"N0_QUERY_PIECES": 4}})
    assert (options.limits.n0_query_pieces, options.llm.model, options.llm.mode) == (4, "small", "replay")
    assert (options.chunking.text.max_tokens, options.chunking.text.method) == (90, "paragraphs")
    assert options.prompt_schema.modes.semantic_enabled
    assert (options.prompt_schema.defaults["tone"], options.prompt_schema.defaults["depth"]) == ("dry", "standard")
    tone = {"prompt_schema": {"defaults": {"tone": "dry"}}}
    assert load_options(None, parse_options(write_options(options)), tone) == options


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rerankr: {}", "rerankr: there is no such option; did you mean reranker"),
        ("limits: {N9: 1}", "limits.N9: .*allowed are N0_QUERY_PIECES"),
        ("llm_failure: maybe", "llm_failure=.maybe.: Input should be 'default' or 'refuse'"),
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


def test_only_the_named_stages_ask_the_model() -> None:
    llm = {"model": "m", "mode": "live", "base_url": "http://127.0.0.1:9", "stages": ["A3_NLI_Gate"]}
    stages: Any = make_pipeline(load_options(None, {"llm": llm, "reranker": {"kind": "none"}}), DocumentMemory()).stages
    assert [name for name in AGENT_STAGES[1:] if stages[name].agent is not None] == ["A3_NLI_Gate"]
