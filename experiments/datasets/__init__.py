"""Test collections: documents, queries, judgments."""
