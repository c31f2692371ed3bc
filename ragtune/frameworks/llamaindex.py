"""A budgeted reranker as LlamaIndex's node postprocessor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragtune.core.errors import InputError, MissingExtraError
from ragtune.facade.ranking import RankedDocument
from ragtune.facade.reranker import BudgetedReranker
from ragtune.frameworks.shared import ESTIMATED, if_all, reranker_from, signals_of, warn_of

try:
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle
except ImportError as error:
    raise MissingExtraError("ragtune.frameworks.llamaindex", "llamaindex") from error


class BudgetedPostprocessor(BaseNodePostprocessor):
    """Reranks the nodes that a retriever found, e.g. among the ``node_postprocessors`` of a query engine.

    A node is read as it is embedded: its text with the metadata that it says are for embedding. Where all nodes have a
    score, it is taken for the first stage's, else their order counts; where all have an embedding, these tell which
    nodes are alike. ``apostprocess_nodes`` runs in a thread.

    Nodes come back best first, as copies: ``score`` is the model's, or an estimate where ``metadata["estimated"]`` is
    true.

    ``model`` is a ``BudgetedReranker``, or its first argument beside the others as ``options``. ``signals`` are keys
    of the metadata.
    """

    top_k: int | None = None
    signals: Sequence[str] = ()
    _reranker: BudgetedReranker = PrivateAttr()

    def __init__(self, model: Any, *, top_k: int | None = None, signals: Sequence[str] = (), **options: Any) -> None:
        super().__init__(top_k=top_k, signals=signals)  # type: ignore[call-arg]
        self._reranker = reranker_from(model, options)

    @classmethod
    def class_name(cls) -> str:
        return "BudgetedPostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise InputError("nodes without a query: give query_str or query_bundle, which they are ranked for")
        ranking = self._reranker.rank(
            query_bundle.query_str,
            [node.node.get_content(metadata_mode=MetadataMode.EMBED) for node in nodes],
            if_all(node.score for node in nodes),
            vectors=if_all(node.node.embedding for node in nodes),
            signals=signals_of(self.signals, [node.node.metadata for node in nodes]),
            top_k=self.top_k,
        )
        warn_of(ranking)
        return [NodeWithScore(node=_marked(nodes[ranked.index].node, ranked), score=ranked.score) for ranked in ranking]


def _marked(node: BaseNode, ranked: RankedDocument) -> BaseNode:
    """A copy whose metadata has the mark, which neither an embedder nor a language model is shown."""
    hidden = {
        name: [*dict.fromkeys([*getattr(node, name), ESTIMATED])]
        for name in ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys")
    }
    return node.model_copy(update={"metadata": {**node.metadata, ESTIMATED: ranked.estimated}, **hidden})
