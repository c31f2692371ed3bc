"""ragd: the canonical blocks of retrieval-augmented generation."""
