"""Where context comes from: the session's turns and long-term documents."""
