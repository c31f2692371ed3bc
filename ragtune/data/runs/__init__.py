"""Runs: ranked documents with scores for many queries, and the files that hold them."""
