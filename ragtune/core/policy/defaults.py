"""What holds where a caller says nothing; it imports nothing, for a command line's help."""

TRUST = 0.5
"""Whose word counts where scores cannot tell: halfway between the sources and the reranker."""

AUTO = "auto"
"""The trust that follows what requests show."""

BATCH_SIZE = 5
"""Documents a call, of a policy that chooses by scores."""

RETRY_AFTER_S = 2.0
"""Seconds after which a reranker that was given up is tried again."""
