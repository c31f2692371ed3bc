"""Every operation of the service, once: REST makes an endpoint of each, MCP a tool."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, signature
from typing import Annotated, Any, Generic, Literal, TypeVar, get_type_hints

from pydantic import Discriminator, Field, Tag, TypeAdapter, ValidationError, create_model
from pydantic_core import from_json
from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12

from ragtune import canonical
from ragtune.canonical.policies import ChunkPolicy, CompressPolicy, RetrievalPlan
from ragtune.canonical.service import RagService
from ragtune.canonical.store.rows import shared_metadata
from ragtune.canonical.types import (
    LISTED,
    OTHER,
    Candidate,
    Chunk,
    Collection,
    Content,
    SourceDocument,
    StoreCounts,
    UpsertCounts,
    kind,
)
from ragtune.core.arguments import check_choice
from ragtune.services import payloads as p
from ragtune.services.errors import AdapterError, invalid
from ragtune.services.payloads import CandidateList, CollectionName, Many, Model

R = TypeVar("R", bound=p.Payload)

Method = Literal["GET", "POST", "DELETE"]
Effect = Literal["reads", "writes", "deletes"]

_CHUNKS, _PLAN, _EXCERPTS, _RRF = ChunkPolicy(), RetrievalPlan(), CompressPolicy(), p.FuseParams()
_CANDIDATES = {"candidates": list[Candidate]}
_INDEXED = {"collection": str, **dict.fromkeys(UpsertCounts.model_fields, int), "keys": list[tuple[str, int]]}
_COLLECTION = {
    field: about.annotation for model in (Collection, StoreCounts) for field, about in model.model_fields.items()
}


@dataclass(frozen=True)
class Operation(Generic[R]):
    """A function of the service. GET and DELETE take fields from path and query; ``documents``: ids it writes."""

    name: str
    summary: str
    request: type[R]
    response: Any
    call: Callable[[Any, R], Any]
    path: str
    method: Method = "POST"
    effect: Effect = "reads"
    documents: Callable[[R], Iterable[str]] | None = None

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.response)

    def decode(self, data: bytes, *, is_json: bool = False) -> R:
        """A request from JSON, whose types are taken as they stand; ``is_json`` where RFC 8259 is known to be kept."""
        try:
            if not is_json:
                from_json(data, allow_inf_nan=False)  # the validator takes NaN and Infinity
            return self.request.model_validate_json(data, strict=True)
        except ValidationError as error:
            raise invalid(error) from None
        except ValueError as error:
            raise AdapterError("malformed-request", f"Invalid JSON: {error}") from None

    def answer(self, service: Any, request: R) -> bytes:
        return self.adapter.dump_json(self.call(service, request), warnings=False)


OPERATIONS: list[Operation[Any]] = []
"""All operations. The function of each has its name, its summary, and the fields of its request."""


def _operation(
    response: Any,
    path: str = "",
    method: Method = "POST",
    effect: Effect = "reads",
    documents: Callable[[Any], Iterable[str]] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        name, types = function.__name__, get_type_hints(function, include_extras=True)
        fields: dict[str, Any] = {
            field: (types[field], ... if given.default is Parameter.empty else given.default)
            for field, given in list(signature(function).parameters.items())[1:]
        }
        title = "".join(part.title() for part in name.split("_"))
        request = create_model(f"{title}Request", __base__=p.Payload, **fields)
        answer = TypedDict(f"{title}Response", response) if isinstance(response, dict) else response  # type: ignore

        def call(service: RagService, given: p.Payload) -> Any:
            return function(service, **{field: getattr(given, field) for field in fields})

        summary, place = str(function.__doc__), path or f"/v1/{name}"
        OPERATIONS.append(Operation(name, summary, request, answer, call, place, method, effect, documents))
        return function

    return declare


@_operation(canonical.NormalizedText)
def normalize(_: RagService, content: Content) -> Any:
    """Bring a text to the one form that all blocks work on."""
    return canonical.normalize(content)


@_operation({"chunks": list[Chunk]})
def chunk(
    _: RagService,
    content: Content,
    policy: ChunkPolicy = _CHUNKS,
    doc_id: str = "",
    tags: Many[str] = (),
    metadata: dict[str, Any] = {},  # noqa: B006 - the default of a field, which Pydantic copies
) -> Any:
    """Cut a document into chunks."""
    return {"chunks": canonical.chunk(content, policy, doc_id=doc_id, tags=tags, metadata=metadata)}


@_operation({"embedder": str, "embed_model": str, "embed_dims": int, "embeddings": list[list[float]]})
def embed(service: RagService, texts: Many[str], embedder: Model = None) -> Any:
    """Turn texts into vectors."""
    service.check_batch("texts", texts)
    name, model = service.embedder(embedder)
    vectors = canonical.embed(texts, model, cache_dir=service.cache_dir)
    return {"embedder": name, "embed_model": model.name, "embed_dims": vectors.shape[1], "embeddings": vectors.tolist()}


@_operation(_INDEXED, effect="writes", documents=lambda request: [chunk.doc_id for chunk in request.chunks])
def index(service: RagService, collection: CollectionName, chunks: Many[Chunk]) -> Any:
    """Embed chunks of whole documents and store them; idempotent."""
    return service.index(collection, chunks)


@_operation(_INDEXED, effect="writes", documents=lambda request: [one.doc_id for one in request.documents])
def ingest(
    service: RagService, collection: CollectionName, documents: Many[SourceDocument], policy: ChunkPolicy = _CHUNKS
) -> Any:
    """Normalize, chunk, embed and store raw documents; idempotent."""
    return service.ingest(collection, documents, policy)


@_operation(_CANDIDATES)
def retrieve(service: RagService, collection: CollectionName, query: str, plan: RetrievalPlan = _PLAN) -> Any:
    """Find the best candidates for a query by vector, by term, or both."""
    return {"candidates": service.retrieve(collection, query, plan)}


CandidateSets = Annotated[
    Annotated[dict[str, CandidateList], Tag(OTHER)] | Annotated[Many[CandidateList], Tag(LISTED)], Discriminator(kind)
]


@_operation(_CANDIDATES)
def fuse(
    service: RagService,
    candidate_sets: CandidateSets,
    method: Literal["rrf", "scores", "concat"] = "rrf",
    params: p.FuseParams = _RRF,
) -> Any:
    """Merge ranked lists into one."""
    service.check_batch("candidate_sets", candidate_sets)
    for candidates in candidate_sets.values() if isinstance(candidate_sets, dict) else candidate_sets:
        service.check_batch("candidates", candidates)
    return {"candidates": canonical.fuse(candidate_sets, method, params.model_dump(exclude_none=True))}


@_operation(_CANDIDATES)
def rerank(
    service: RagService,
    query: str,
    candidates: CandidateList,
    model: Annotated[str | None, Field(description="A reranker; null leaves candidates as they are.")] = None,
) -> Any:
    """Score candidates anew by a reranker of the server."""
    service.check_batch("candidates", candidates)
    known = service.rerankers
    chosen = None if model is None else known[check_choice("model", model, known or ("null",))]
    return {"candidates": canonical.rerank(query, candidates, chosen)}


@_operation({"excerpts": list[p.Excerpt]})
def compress(service: RagService, query: str, candidates: CandidateList, policy: CompressPolicy = _EXCERPTS) -> Any:
    """Cut candidates down to the sentences that matter for the query."""
    service.check_batch("candidates", candidates)
    return {"excerpts": canonical.compress(query, candidates, policy)}


@_operation({"query": str, "count": int, "results": list[p.Result]})
def package(
    service: RagService,
    query: str,
    candidates: CandidateList,
    excerpts: Many[p.Excerpt] | None = None,
    include_content: bool = True,
) -> Any:
    """Put candidates and excerpts into one answer."""
    service.check_batch("candidates", candidates)
    return canonical.package(query, candidates, excerpts, include_content=include_content)


@_operation({"collections": list[Collection]}, "/v1/collections", "GET")
def list_collections(service: RagService) -> Any:
    """List the collections."""
    return {"collections": service.database.collections()}


@_operation(Collection, "/v1/collections", effect="writes", documents=lambda _: [])
def create_collection(
    service: RagService,
    collection: CollectionName,
    embedder: Model = None,
    analyzer: Annotated[str | None, Field(description="Text analysis, e.g. english, german, cjk, none.")] = None,
) -> Any:
    """Make a collection unless it is there; idempotent."""
    return service.create_collection(collection, embedder, analyzer)


@_operation(_COLLECTION, "/v1/collections/{collection}", "GET")
def get_collection(service: RagService, collection: CollectionName) -> Any:
    """Describe a collection and count what it holds."""
    return service.on(collection, lambda store: {**store.collection.model_dump(), **store.counts().model_dump()})


@_operation({"dropped": bool}, "/v1/collections/{collection}", "DELETE", "deletes")
def delete_collection(service: RagService, collection: CollectionName) -> Any:
    """Delete a collection with all it holds."""
    return {"dropped": service.drop_collection(collection)}


@_operation({"doc_ids": list[str]}, "/v1/collections/{collection}/documents", "GET")
def list_documents(
    service: RagService,
    collection: CollectionName,
    after: Annotated[str, Field(description="List the ids that follow this one.")] = "",
    limit: Annotated[int, Field(ge=1)] = 100,
) -> Any:
    """List document ids, page by page."""
    service.check_limit("limit", limit)
    return {"doc_ids": service.on(collection, lambda store: store.doc_ids(after or None, limit))}


@_operation(
    {"deleted": int},
    "/v1/collections/{collection}/documents",
    *("DELETE", "deletes"),
    documents=lambda request: request.doc_ids,
)
def delete_documents(service: RagService, collection: CollectionName, doc_ids: Many[str]) -> Any:
    """Delete documents with their chunks."""
    service.check_batch("doc_ids", doc_ids)
    return {"deleted": service.on(collection, lambda store: store.delete(doc_ids))}


@_operation({"chunks": list[Chunk], "metadata": dict[str, Any]}, "/v1/collections/{collection}/chunks", "GET")
def get_chunks(service: RagService, collection: CollectionName, doc_id: str) -> Any:
    """Get a document's metadata and its chunks in order; none if it is not there."""
    chunks = service.on(collection, lambda store: store.chunks(doc_id))
    return {"chunks": chunks, "metadata": shared_metadata(chunks)}
