"""Builds the pipeline's parts from options. Models load in the stage that first needs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from ragtune.canonical.types import Chunk
from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseEmbedder, BaseReranker
from ragtune.data.models import model_identity
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.llm.client import LLMClient
from ragtune.superprompt.memory.documents import DocumentMemory
from ragtune.superprompt.memory.inputs import Documents, demo_folder, read_folder
from ragtune.superprompt.options import EmbedderOptions, LLMOptions, PromptOptions, RerankerOptions
from ragtune.superprompt.pipeline import Pipeline, build_pipeline
from ragtune.superprompt.reading.text import language_of
from ragtune.superprompt.stages.reranker import BaseRerankStage, BudgetedRerankStage, LatentRerankStage, TopRerankStage
from ragtune.superprompt.super_prompt import ContextChunk

_HASHING = "hashing dims="
_MOST_CHUNKS = 500_000


def check_options(options: PromptOptions) -> None:
    """Check combinations of options, without loading or connecting anything."""
    make_client(options.llm)
    make_reranker(options.reranker)
    if options.memory.collection is None:
        _make_embedder(options.embedder)
    if options.memory.dsn and options.memory.data_dir:
        raise ConfigError("memory.dsn and memory.data_dir: allowed is one of them")
    if (data_dir := options.memory.data_dir) is not None and not data_dir.expanduser().is_dir():
        raise ConfigError(f"memory.data_dir {str(data_dir)!r}: there is no such folder: ragtune ingest makes one")


def make_client(options: LLMOptions) -> LLMClient | None:
    """Return a client of the language model; None without one."""
    if options.model is None:
        return None
    return LLMClient(**options.model_dump(exclude={"stages"}))


@lru_cache(maxsize=1)
def make_reranker(options: RerankerOptions) -> BaseReranker | None:
    """Return the chosen reranker, the same one as long as the options are; None for ``auto`` without a model here."""
    model = options.model
    if options.kind == "none":
        return None
    if options.kind == "auto" and (find_spec("sentence_transformers") is None or model_identity(model) is None):
        return None
    return TopRerankStage.cross_encoder(model).reranker


def make_memory(options: PromptOptions, *sets: Documents) -> DocumentMemory:
    """Return the long-term memory: the documents, and the collection's, of which those of the same name are left out.

    A collection is read whole. The memory does not change with it afterwards.
    """
    own = [chunk for texts in sets for chunk in DocumentMemory.from_texts(texts, options.chunking).chunks]
    embedder = _make_embedder(options.embedder)
    stored: list[ContextChunk] = []
    vectors: NDArray[np.float32] | None = None
    if options.memory.collection is not None:
        replaced = {chunk.doc_id for chunk in own}
        embedder, found, vectors = _read_collection(options, options.memory.collection, embedder)
        places = [place for place, chunk in enumerate(found) if chunk.doc_id not in replaced]
        stored, vectors = [ContextChunk.of(found[place], "memory") for place in places], vectors[places]

    def vectors_of_all() -> NDArray[np.float32]:
        from ragtune.data.corpus import Corpus, Document
        from ragtune.data.docvectors import DocumentVectors

        parts = [] if vectors is None else [vectors]
        if own and embedder is not None:
            corpus = Corpus(Document(id=chunk.id, text=chunk.snippet) for chunk in own)
            parts.append(DocumentVectors(corpus, embedder).matrix)
        return np.vstack(parts)

    return DocumentMemory([*stored, *own], embedder, vectors_of_all)


def make_pipeline(options: PromptOptions, memory: DocumentMemory) -> Pipeline:
    """Return the pipeline of the options over a memory."""
    reranker = make_reranker(options.reranker)
    stage: BaseRerankStage | None = None
    terms: LatentRerankStage | None = None
    is_by_terms = reranker is None and memory.embedder is None
    if options.reranker.kind != "none" and (is_by_terms or memory.sections is not None):
        language = None if memory.embedder is None else language_of(" ".join(memory.sample()))
        terms = LatentRerankStage(memory.index, options.request_words, memory.sections, language)
    if reranker is None:
        stage = terms
    elif options.reranker.kind == "budgeted":
        stage = BudgetedRerankStage(reranker, options.reranker.budget, terms)
    else:
        stage = TopRerankStage(reranker, terms)
    client = make_client(options.llm)
    if client is not None:
        client.prepare()  # outside the stages' times
    return build_pipeline(options, memory=memory, rerank_stage=stage, client=client, asking=options.llm.stages)


@contextmanager
def open_pipeline(options: PromptOptions) -> Iterator[Pipeline]:
    """Open the documents or collection, and give the options' pipeline."""
    check_options(options)
    folder = options.memory.folder or (None if options.memory.collection else demo_folder())
    sets = [] if folder is None else [read_folder(folder, as_ingested=options.memory.collection is not None)]
    yield make_pipeline(options, make_memory(options, *sets))


def _read_collection(
    options: PromptOptions, name: str, embedder: BaseEmbedder | None
) -> tuple[BaseEmbedder | None, list[Chunk], NDArray[np.float32]]:
    """The embedder to compare a collection's texts with, None for their terms; its chunks, and their vectors."""
    from ragtune.canonical.store.embedded import connect

    with connect(options.memory.dsn, options.memory.data_dir, pool_size=1) as database:
        made_with = {one.name: one.embed_model for one in database.collections()}
        own = embedder or _embedder_of(name, made_with.get(name), database.settings(name).get("embedder", {}))
        store = database.open(name, own)
        if (count := store.counts().chunks) > _MOST_CHUNKS:
            raise ConfigError(f"collection {name!r} has {count:,} chunks: allowed are {_MOST_CHUNKS:,}, which are read")
        is_by_terms = options.embedder.kind == "tfidf" or isinstance(own, HashingEmbedder)
        return (None if is_by_terms else own, *store.contents())


def _embedder_of(collection: str, made_with: str | None, settings: Mapping[str, str]) -> BaseEmbedder:
    """The embedder that a collection was made with."""
    if made_with is None:
        return HashingEmbedder()  # opening reports the missing collection
    dims = made_with.removeprefix(_HASHING).partition(" ")[0]
    if made_with.startswith(_HASHING) and dims.isdigit():
        return HashingEmbedder(int(dims))
    if embedder := _make_embedder(EmbedderOptions.model_validate(settings)):
        return embedder
    raise ConfigError(
        f"collection {collection!r} was made with {made_with!r}: name it as embedder.kind=sentence_transformer or "
        "openai_compatible and embedder.model"
    )


def _make_embedder(options: EmbedderOptions) -> BaseEmbedder | None:
    """The chosen embedder; None for TF-IDF and ``auto``."""
    if options.kind in ("auto", "tfidf"):
        return None
    if options.model is None:
        raise ConfigError(f"embedder.kind={options.kind!r} needs embedder.model: folder or name of an embedding model")
    if options.kind == "sentence_transformer":
        from ragtune.data.models import require_models
        from ragtune.embedders.sentence_transformer import SentenceTransformerEmbedder

        require_models(f"embedder.kind={options.kind!r}")
        return SentenceTransformerEmbedder(options.model)
    from ragtune.embedders.openai_compatible import OpenAICompatibleEmbedder

    client = LLMClient(model=options.model, base_url=options.base_url, api_key_env=options.api_key_env, mode="live")
    return OpenAICompatibleEmbedder(client, options.dims)
