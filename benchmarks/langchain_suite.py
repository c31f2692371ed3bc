"""LangChain's standard tests of retrievers, with a budgeted compressor in one: see benchmarks/framework_suites.py."""

from __future__ import annotations

from collections.abc import Callable

from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_tests.integration_tests.retrievers import RetrieversIntegrationTests

from benchmarks.framework_suites import overlap
from ragtune.frameworks.langchain import BudgetedCompressor


def retriever(top_k: int | None = None) -> ContextualCompressionRetriever:
    """Three documents, of which at most two are scored."""
    found = RunnableLambda(lambda query: [Document(text) for text in ("red wine", "green tea", "black tea")])
    compressor = BudgetedCompressor(overlap, top_k=top_k, docs=2)
    return ContextualCompressionRetriever(base_compressor=compressor, base_retriever=found)


class TestBudgetedCompressor(RetrieversIntegrationTests):
    """``test_invoke_with_k_kwarg`` cannot apply: LangChain hands such an argument to the base retriever."""

    num_results_arg_name = "top_k"
    retriever_query_example = "green tea"

    @property
    def retriever_constructor(self) -> Callable[..., ContextualCompressionRetriever]:
        """A retriever with a compressor."""
        return retriever
