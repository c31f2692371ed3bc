"""One batch from its price to its scores, and what happens when it fails."""

RETRY_AFTER_S = 2.0
"""Seconds after which a reranker that was given up is tried again; here, since a command line's help needs it."""
