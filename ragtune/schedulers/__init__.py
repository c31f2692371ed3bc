"""Schedulers of rerank batches."""
