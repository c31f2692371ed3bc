from __future__ import annotations

import pytest

from ragtune.core.errors import ConfigError
from ragtune.superprompt import PipelineConfig


def test_the_defaults_are_those_of_the_spec() -> None:
    limits = PipelineConfig.load().limits.model_dump(by_alias=True)
    spec = {"N0_QUERY_PIECES": 5, "N1_RETR_MAX_CANDIDATES": 200, "N2_RERANK_TOP_K": 50, "N3_FINAL_SELECTION_MAX": 24}
    assert {name: limits[name] for name in spec} == spec
    assert 8 <= limits["N4_RECENT_CONV_MAX_PAIRS"] <= 12
    assert limits["LOG_AVG_EXP_TAU"] == 9


def test_a_limit_is_overridden_by_either_spelling() -> None:
    assert PipelineConfig.load(n1_retr_max_candidates=7).limits.n1_retr_max_candidates == 7
    assert PipelineConfig.load(N1_RETR_MAX_CANDIDATES=7).limits.n1_retr_max_candidates == 7


@pytest.mark.parametrize(
    ("limit", "value"),
    [("n0_query_pieces", 0), ("n1_retr_max_candidates", -1), ("log_avg_exp_tau", 0), ("piece_slack", 0.5), ("n9", 1)],
)
def test_a_limit_that_is_not_allowed_is_refused_by_name(limit: str, value: float) -> None:
    with pytest.raises(ConfigError, match=limit.upper()):
        PipelineConfig.load(**{limit: value})
