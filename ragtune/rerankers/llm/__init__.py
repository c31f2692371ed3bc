"""Rerankers that ask a language model."""
