"""RAGtune in other people's programs: candidates in, ranking out. No collection, no retriever, no Hydra."""
