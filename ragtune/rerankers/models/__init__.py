"""Rerankers whose model runs in this process."""
