"""A prior that is fitted to the reranker's own scores of other queries, beside the one that nobody fits."""
