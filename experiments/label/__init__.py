"""Finds the judgments that decide whether a reranker helps, and collects them."""
