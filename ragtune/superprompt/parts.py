"""Builds the pipeline's parts from options. Models load in the stage that first needs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from importlib.util import find_spec

from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseEmbedder, BaseReranker
from ragtune.data.models import model_identity
from ragtune.llm.client import LLMClient
from ragtune.superprompt.memory.documents import BaseMemory, DocumentMemory, StoreMemory
from ragtune.superprompt.memory.inputs import Documents, demo_folder, read_folder
from ragtune.superprompt.options import EmbedderOptions, LLMOptions, PromptOptions, RerankerOptions
from ragtune.superprompt.pipeline import Pipeline, build_pipeline
from ragtune.superprompt.stages.reranker import BaseRerankStage, BudgetedRerankStage, LatentRerankStage, TopRerankStage

_HASHING = "hashing dims="


def check_options(options: PromptOptions) -> None:
    """Check combinations of options, without loading or connecting anything."""
    make_client(options.llm)
    make_reranker(options.reranker)
    if options.memory.collection is None:
        _make_embedder(options.embedder)
    elif options.embedder.kind == "tfidf":
        raise ConfigError("embedder.kind='tfidf': a collection has vectors: allowed are auto and the other embedders")
    if options.memory.dsn and options.memory.data_dir:
        raise ConfigError("memory.dsn and memory.data_dir: allowed is one of them")


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


def make_memory(options: PromptOptions, *sets: Documents) -> BaseMemory:
    """Return the long-term memory of documents, and of the collection if there is one. Close it after use."""
    from ragtune.data.corpus import Corpus, Document
    from ragtune.data.docvectors import DocumentVectors

    chunks = [chunk for texts in sets for chunk in DocumentMemory.from_texts(texts, options.chunking).chunks]
    collection = options.memory.collection
    if collection is None:
        embedder = _make_embedder(options.embedder)
        if embedder is None or not chunks:
            return DocumentMemory(chunks, embedder)
        corpus = Corpus(Document(id=chunk.id, text=chunk.snippet) for chunk in chunks)
        return DocumentMemory(chunks, embedder, DocumentVectors(corpus, embedder))
    from ragtune.canonical.store.embedded import connect

    database = connect(options.memory.dsn, options.memory.data_dir, pool_size=2)
    try:
        made_with = {one.name: one.embed_model for one in database.collections()}
        embedder = _make_embedder(options.embedder) or _embedder_of(collection, made_with.get(collection))
        return StoreMemory(database.open(collection, embedder), chunks, database)
    except Exception:
        database.close()
        raise


def make_pipeline(options: PromptOptions, memory: BaseMemory) -> Pipeline:
    """Return the pipeline of the options over a memory."""
    reranker = make_reranker(options.reranker)
    stage: BaseRerankStage | None = None
    if reranker is not None and options.reranker.kind == "budgeted":
        stage = BudgetedRerankStage(reranker, options.reranker.budget)
    elif reranker is not None:
        stage = TopRerankStage(reranker)
    elif options.reranker.kind == "auto" and isinstance(memory, DocumentMemory) and memory.embedder is None:
        stage = LatentRerankStage(memory.index, options.request_words, memory.sections)
    client = make_client(options.llm)
    if client is not None:
        client.prepare()  # outside the stages' times
    return build_pipeline(
        config=options,
        memory=memory,
        rerank_stage=stage,
        client=client,
        asking=options.llm.stages,
    )


@contextmanager
def open_pipeline(options: PromptOptions) -> Iterator[Pipeline]:
    """Open the documents or collection, and give the options' pipeline."""
    check_options(options)
    folder = options.memory.folder or (None if options.memory.collection else demo_folder())
    sets = [] if folder is None else [read_folder(folder)]
    with closing(make_memory(options, *sets)) as memory:
        yield make_pipeline(options, memory)


def _embedder_of(collection: str, made_with: str | None) -> BaseEmbedder:
    from ragtune.embedders.hashing import HashingEmbedder

    if made_with is None:
        return HashingEmbedder()  # opening reports the missing collection
    dims = made_with.removeprefix(_HASHING).partition(" ")[0]
    if made_with.startswith(_HASHING) and dims.isdigit():
        return HashingEmbedder(int(dims))
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
