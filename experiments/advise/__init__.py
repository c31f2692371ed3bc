"""Advises where a reranking budget should go: policies replayed on somebody's own data, and one of them chosen."""
