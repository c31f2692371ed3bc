"""Estimators that infer relevance from scores: Gaussian posteriors and kernel regression."""
