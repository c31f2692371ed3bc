"""Sources of context: the session's turns and long-term documents."""
