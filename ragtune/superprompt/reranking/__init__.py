"""Rerank stages: the ways in which the ReRanker orders candidates."""
