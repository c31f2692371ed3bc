"""The rerank APIs that clients speak: a small description of each, read into one query, written from one ranking."""
