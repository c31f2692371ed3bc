"""Query reformulators."""
