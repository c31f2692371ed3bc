"""The ceiling that knows the reranker's scores."""

from __future__ import annotations

import numpy as np

from ragtune.estimators.score_oracle import ScoreOracleEstimator


def test_what_the_reranker_loses_comes_last(fakes, make_pool, make_context):
    lossy = fakes.Reranker(recorded=True, script=[{"a": 0.2, "c": 0.9}])
    mean = ScoreOracleEstimator(lossy).value(make_pool("abc"), make_context()).mean
    np.testing.assert_array_equal(mean, [0.2, 0.0, 0.9])
