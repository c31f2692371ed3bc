"""The pipeline's parts as options describe them. Models are loaded by the stage that first needs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseEmbedder, BaseReranker
from ragtune.core.request.clock import Clock
from ragtune.llm.client import LLMClient
from ragtune.superprompt.build import build_pipeline
from ragtune.superprompt.chunks import ContextChunk
from ragtune.superprompt.memory.base import BaseMemory
from ragtune.superprompt.memory.conversation import conversation_chunks
from ragtune.superprompt.memory.documents import DocumentMemory
from ragtune.superprompt.memory.folders import DocumentSet, demo_folder, read_folder
from ragtune.superprompt.memory.store import StoreMemory
from ragtune.superprompt.options.model import EmbedderOptions, LLMOptions, MemoryOptions, PromptOptions, RerankerOptions
from ragtune.superprompt.pipeline import Pipeline
from ragtune.superprompt.reranking.at_hand import rerank_stage_without_model, reranker_at_hand
from ragtune.superprompt.reranking.base import BaseRerankStage
from ragtune.superprompt.reranking.budgeted import CandidateRerankStage, settled_stage
from ragtune.superprompt.reranking.top import TopRerankStage
from ragtune.superprompt.super_prompt import Turn

if TYPE_CHECKING:
    from ragtune.canonical.store.base import BaseDatabase

_HASHING = "hashing dims="


def check_options(options: PromptOptions) -> None:
    """Check what options mean together, without loading or connecting anything.

    Raises:
        ConfigError: naming the option that is not allowed.
        MissingExtraError: if what an option needs is not installed.
    """
    make_reranker(options.reranker)
    make_client(options.llm)
    if options.memory.collection is None:
        _refuse_filters(options.memory)
        _make_document_embedder(options.embedder)
    elif options.embedder.kind == "tfidf":
        raise ConfigError("embedder.kind='tfidf': a collection has vectors: allowed are auto and the other embedders")


def _refuse_filters(options: MemoryOptions) -> None:
    """Documents of a folder have neither tags nor metadata to be filtered by."""
    for name in ("tags_any", "tags_all", "metadata"):
        if value := getattr(options, name):
            raise ConfigError(f"memory.{name}={value!r}: allowed with memory.collection only")


def make_client(options: LLMOptions) -> LLMClient | None:
    """A client of the chosen language model; None without one.

    Raises:
        ConfigError: on a setting that is not allowed.
    """
    if options.model is None:
        return None
    fields = options.model_dump(exclude={"stages"})
    fields["base_url"] = (options.base_url or "").strip() or None
    fields["api_key_env"] = options.api_key_env.strip()
    return LLMClient(**fields)


def make_reranker(options: RerankerOptions) -> BaseReranker | None:
    """The chosen reranker, None for none; its model is not loaded before it is used.

    Raises:
        ConfigError: on a setting that is not allowed.
    """
    model = options.model.strip()
    if options.kind == "none":
        return None
    if options.kind == "auto":
        return reranker_at_hand(model)
    if not model:
        raise ConfigError(f"reranker.kind={options.kind!r} needs reranker.model: folder or hub name of a cross-encoder")
    return TopRerankStage.cross_encoder(model).reranker


@contextmanager
def open_memory(options: PromptOptions, *sets: DocumentSet) -> Iterator[BaseMemory]:
    """The long-term memory; a collection's connections are closed at the end.

    Args:
        options: the options.
        sets: documents that are searched, beside the collection where one is named.

    Raises:
        InputError: on options that do not fit the collection, or documents that cannot be used.
        StoreError: if the database cannot be reached or started.
    """
    if options.memory.collection is None:
        yield document_memory(options, *sets)
        return
    with open_database(options.memory) as database:
        yield collection_memory(options, database, *sets)


def document_memory(options: PromptOptions, *sets: DocumentSet) -> DocumentMemory:
    """The memory of documents; vectors of an embedder are kept in the platform's cache folder.

    Raises:
        DatasetError: if two sets have a document of the same name.
    """
    from ragtune.data.corpus import Corpus, Document
    from ragtune.data.docvectors import DocumentVectors

    chunks = _chunks(options, sets)
    embedder = _make_document_embedder(options.embedder)
    if embedder is None or not chunks:
        return DocumentMemory(chunks, embedder)
    corpus = Corpus(Document(id=chunk.id, text=chunk.snippet) for chunk in chunks)
    return DocumentMemory(chunks, embedder, DocumentVectors(corpus, embedder))


def open_database(options: MemoryOptions) -> BaseDatabase:
    """The database of ragd's collections.

    Raises:
        MissingExtraError: without the extra ``postgres``.
        StoreError: if there is no server to connect to.
    """
    from ragtune.canonical.store.embedded import connect

    if options.dsn and options.data_dir:
        raise ConfigError("memory.dsn and memory.data_dir: allowed is one of them")
    return connect(options.dsn, options.data_dir, pool_size=2)


def collection_memory(options: PromptOptions, database: BaseDatabase, *sets: DocumentSet) -> StoreMemory:
    """A collection as the memory, and documents beside it.

    Raises:
        DatasetError: if two sets have a document of the same name.
        UnknownCollectionError: if there is no collection of that name.
        CollectionMismatchError: if it was made with another embedder.
        ConfigError: if the embedder is to be the collection's own and cannot be told from its name.
    """
    from ragtune.canonical.types import Filters

    wanted = options.memory
    name = wanted.collection or ""
    made_with = {one.name: one.embed_model for one in database.collections()}
    embedder = _make_collection_embedder(options.embedder, name, made_with.get(name))
    filters = Filters(tags_any=wanted.tags_any, tags_all=wanted.tags_all, metadata=wanted.metadata)
    return StoreMemory(database.open(name, embedder), filters, _chunks(options, sets))


def make_rerank_stage(
    options: RerankerOptions, reranker: BaseReranker | None, chunks: Sequence[ContextChunk] | None
) -> BaseRerankStage | None:
    """What the ReRanker stage runs.

    Args:
        options: the options.
        reranker: the reranker that :func:`make_reranker` made, given so that a loaded model can be kept.
        chunks: every chunk that may become a candidate, those of turns included; None where they are not at hand: the
            budgeted policy then knows the candidates alone.
    """
    if reranker is None:
        return None
    if options.kind != "budgeted":
        return TopRerankStage(reranker)
    if chunks is None:
        return CandidateRerankStage(lambda texts: settled_stage(reranker, texts, options.budget, None))
    return settled_stage(reranker, {chunk.id: chunk.snippet for chunk in chunks}, options.budget)


def make_pipeline(
    options: PromptOptions,
    memory: BaseMemory,
    turns: Sequence[Turn] = (),
    reranker: BaseReranker | None = None,
    clock: Clock | None = None,
    sets: Sequence[DocumentSet] = (),
) -> Pipeline:
    """A pipeline out of its parts; the language model's client alone is made ready here, so that no stage's time holds
    the import of its library.

    Args:
        options: the options.
        memory: what Retrieval searches.
        turns: turns of the conversation, whose chunks may become candidates too.
        reranker: the reranker that :func:`make_reranker` made.
        clock: clock that the stages' milliseconds are read from; None takes the monotonic clock.
        sets: the documents of the memory, whose scores may be recorded.

    Raises:
        ConfigError: on a setting that is not allowed.
        DatasetError, ScoreTableError: if recorded scores of the documents cannot be read.
        MissingExtraError: if the language model's client is not installed.
    """
    chunks, stage = None, None
    if isinstance(memory, DocumentMemory):
        chunks = [*conversation_chunks(turns, options.chunking.conversation), *memory.chunks]
        if reranker is None and options.reranker.kind == "auto" and memory.embedder is None:
            folder = sets[0].collection if len(sets) == 1 else None
            stage = rerank_stage_without_model(memory, options.request_words, folder)
    client = make_client(options.llm)
    if client is not None:
        client.prepare()
    return build_pipeline(
        config=options,
        memory=memory,
        rerank_stage=stage or make_rerank_stage(options.reranker, reranker, chunks),
        client=client,
        agents=options.agents,
        a2_passes=options.a2_passes,
        asking=options.llm.stages,
        clock=clock,
    )


@contextmanager
def open_pipeline(options: PromptOptions, turns: Sequence[Turn] = (), clock: Clock | None = None) -> Iterator[Pipeline]:
    """The pipeline that the options describe, its documents read or its collection opened.

    Args:
        options: the options.
        turns: turns of the conversation that prompts will have.
        clock: clock that the stages' milliseconds are read from; None takes the monotonic clock.

    Raises:
        InputError: on options, documents or a collection that cannot be used.
        StoreError: if the database cannot be reached or started.
    """
    check_options(options)
    folder = options.memory.folder or (None if options.memory.collection else demo_folder())
    sets = [] if folder is None else [read_folder(folder)]
    with open_memory(options, *sets) as memory:
        yield make_pipeline(options, memory, turns, make_reranker(options.reranker), clock, sets)


def _chunks(options: PromptOptions, sets: Sequence[DocumentSet]) -> list[ContextChunk]:
    return [chunk for one in sets for chunk in DocumentMemory.from_texts(one.texts, options.chunking).chunks]


def _make_document_embedder(options: EmbedderOptions) -> BaseEmbedder | None:
    return None if options.kind in ("auto", "tfidf") else _make_embedder(options)


def _make_collection_embedder(options: EmbedderOptions, name: str, made_with: str | None) -> BaseEmbedder:
    from ragtune.embedders.hashing import HashingEmbedder

    if options.kind != "auto":
        return _make_embedder(options)
    if made_with is None:
        return HashingEmbedder()  # opening the collection says that there is none
    dims = made_with.removeprefix(_HASHING).partition(" ")[0]
    if made_with.startswith(_HASHING) and dims.isdigit():
        return HashingEmbedder(int(dims))
    raise ConfigError(
        f"collection {name!r} was made with {made_with!r}: name it as embedder.kind=sentence_transformer or "
        "openai_compatible and embedder.model"
    )


def _make_embedder(options: EmbedderOptions) -> BaseEmbedder:
    if options.kind == "hashing":
        from ragtune.embedders.hashing import HashingEmbedder

        return HashingEmbedder() if options.dims is None else HashingEmbedder(options.dims)
    model = (options.model or "").strip()
    if not model:
        raise ConfigError(f"embedder.kind={options.kind!r} needs embedder.model: folder or name of an embedding model")
    if options.kind == "sentence_transformer":
        from ragtune.data.models import require_models
        from ragtune.embedders.sentence_transformer import SentenceTransformerEmbedder

        require_models(f"embedder.kind={options.kind!r}")
        return SentenceTransformerEmbedder(model)
    from ragtune.embedders.openai_compatible import OpenAICompatibleEmbedder

    base_url = (options.base_url or "").strip() or None
    client = LLMClient(model=model, base_url=base_url, api_key_env=options.api_key_env.strip(), mode=options.mode)
    return OpenAICompatibleEmbedder(client, options.dims)
