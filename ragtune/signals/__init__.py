"""Signals: what is known of candidates for free, before any of them is reranked."""
