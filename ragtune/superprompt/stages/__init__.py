"""The eight stages, one a file, and what they have in common."""
