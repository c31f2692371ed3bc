"""Budgeted reranking as components of PyTerrier, LangChain, LlamaIndex, Haystack and Sentence Transformers."""
