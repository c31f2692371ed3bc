"""Rerankers that ask a rerank server."""

from ragtune.rerankers.http.reranker import HttpReranker

__all__ = ["HttpReranker"]
