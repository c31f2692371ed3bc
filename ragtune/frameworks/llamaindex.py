"""A budgeted reranker as LlamaIndex's node postprocessor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragtune.core.errors import InputError, MissingExtraError
from ragtune.facade.ranking import RankedDocument
from ragtune.facade.reranker import BudgetedReranker
from ragtune.frameworks.shared import ESTIMATED, first_scores, if_all, name_of, reranker_from, signals_of, warn_of

try:
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
    from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
    from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
    from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle
except ImportError as error:
    raise MissingExtraError("ragtune.frameworks.llamaindex", "llamaindex") from error

_dispatcher = get_dispatcher(__name__)


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

    model: Any = Field(exclude=True, frozen=True)
    top_k: int | None = None
    signals: Sequence[str] = ()
    options: dict[str, Any] = Field(frozen=True)
    _reranker: BudgetedReranker = PrivateAttr()

    def __init__(
        self,
        model: Any,
        *,
        top_k: int | None = None,
        signals: Sequence[str] = (),
        callback_manager: CallbackManager | None = None,
        options: dict[str, Any] | None = None,
        **further: Any,
    ) -> None:
        options = {**(options or {}), **further}  # as to_dict() has them, or one by one
        arguments = {"model": model, "top_k": top_k, "signals": signals, "options": options}
        super().__init__(**arguments, callback_manager=callback_manager or CallbackManager())
        self._reranker = reranker_from(model, options)

    @classmethod
    def class_name(cls) -> str:
        return "BudgetedPostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise InputError("nodes without a query: give query_str or query_bundle, which they are ranked for")
        model, top_n = name_of(self.model), len(nodes) if self.top_k is None else self.top_k
        _dispatcher.event(ReRankStartEvent(query=query_bundle, nodes=nodes, top_n=top_n, model_name=model))
        payload: dict[str, Any] = {
            EventPayload.NODES: nodes,
            EventPayload.MODEL_NAME: model,
            EventPayload.QUERY_STR: query_bundle.query_str,
            EventPayload.TOP_K: top_n,
        }
        with self.callback_manager.event(CBEventType.RERANKING, payload=payload) as event:
            ranking = self._reranker.rank(
                query_bundle.query_str,
                [node.node.get_content(metadata_mode=MetadataMode.EMBED) for node in nodes],
                first_scores((node.score, node.node.metadata) for node in nodes),
                vectors=if_all(node.node.embedding for node in nodes),
                signals=signals_of(self.signals, [node.node.metadata for node in nodes]),
                top_k=self.top_k,
            )
            warn_of(ranking)
            found = [NodeWithScore(node=_marked(nodes[one.index].node, one), score=one.score) for one in ranking]
            event.on_end(payload={EventPayload.NODES: found})
        _dispatcher.event(ReRankEndEvent(nodes=found))
        return found


def _marked(node: BaseNode, ranked: RankedDocument) -> BaseNode:
    """A copy whose metadata has the mark, which neither an embedder nor a language model is shown."""
    hidden = {
        name: [*dict.fromkeys([*getattr(node, name), ESTIMATED])]
        for name in ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys")
    }
    return node.model_copy(update={"metadata": {**node.metadata, ESTIMATED: ranked.estimated}, **hidden})
