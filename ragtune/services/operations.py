"""Every operation of the service, once: REST makes an endpoint of each, MCP a tool."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from ragtune.canonical.chunking import chunk
from ragtune.canonical.normalization import NormalizedText, normalize
from ragtune.canonical.service import RagService
from ragtune.canonical.store.rows import shared_metadata
from ragtune.canonical.types import Collection
from ragtune.core.errors import InputError
from ragtune.services import payloads as p

R = TypeVar("R", bound=p.Request)


class MalformedRequestError(InputError):
    """A request that is no JSON."""


@dataclass(frozen=True)
class Operation(Generic[R]):
    """A function of the service.

    Attributes:
        call: carries the operation out on what serves it: a service, or what ranks.
        path: names in braces are fields of the request. Other fields of GET and DELETE are query parameters, those of
            POST the body.
        documents: ids of the documents that a request writes; None where it writes the whole collection, or nothing.
    """

    name: str
    summary: str
    request: type[R]
    response: Any
    call: Callable[[Any, R], Any]
    method: Literal["GET", "POST", "DELETE"] = "POST"
    path: str = ""
    effect: Literal["reads", "writes", "deletes"] = "reads"
    documents: Callable[[R], Iterable[str]] | None = None
    adapter: TypeAdapter[Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", self.path or f"/v1/{self.name}")
        object.__setattr__(self, "adapter", TypeAdapter(self.response))

    def answer(self, service: Any, request: R) -> bytes:
        """The response in JSON."""
        return self.adapter.dump_json(self.call(service, request), warnings=False)


def decode(request: type[R], data: bytes) -> R:
    """A request from JSON (RFC 8259: without NaN and Infinity), whose types are taken as they stand."""
    try:
        if b"NaN" in data or b"Infinity" in data:  # perhaps in a string, but the validator takes the numbers too
            from_json(data, allow_inf_nan=False)
        return request.model_validate_json(data, strict=True)
    except ValidationError as error:
        if error.error_count() > 1:  # to list them takes time
            raise
        (only,) = error.errors(include_url=False, include_input=False)
        if only["type"] != "json_invalid":
            raise
        raise MalformedRequestError(only["msg"]) from None
    except ValueError as error:
        raise MalformedRequestError(f"Invalid JSON: {error}") from None


def _describe(service: RagService, request: p.InCollection) -> dict[str, Any]:
    collection, counts = service.describe_collection(request.collection)
    return {**collection.model_dump(), **counts.model_dump()}


def _embed(service: RagService, request: p.EmbedRequest) -> dict[str, Any]:
    name, model, vectors = service.embed(request.texts, request.embedder)
    return {"embedder": name, "embed_model": model, "embed_dims": vectors.shape[1], "embeddings": vectors.tolist()}


def _document(service: RagService, request: p.OneDocument) -> dict[str, Any]:
    chunks = service.chunks(request.collection, request.doc_id)
    return {"chunks": chunks, "metadata": shared_metadata(chunks)}


def _chunk(_: RagService, request: p.ChunkRequest) -> dict[str, Any]:
    made = chunk(request.content, request.policy, doc_id=request.doc_id, tags=request.tags, metadata=request.metadata)
    return {"chunks": made}


def _package(service: RagService, request: p.PackageRequest) -> dict[str, Any]:
    excerpts = None if request.excerpts is None else [excerpt.model_dump() for excerpt in request.excerpts]
    return service.package(request.query, request.candidates, excerpts, request.include_content)


OPERATIONS: tuple[Operation[Any], ...] = (
    Operation(
        "normalize",
        "Bring a text to the one form that all blocks work on.",
        p.NormalizeRequest,
        NormalizedText,
        lambda _, request: normalize(request.content),
    ),
    Operation("chunk", "Cut a document into chunks.", p.ChunkRequest, p.Chunks, _chunk),
    Operation("embed", "Turn texts into vectors.", p.EmbedRequest, p.Vectors, _embed),
    Operation(
        "index",
        "Embed chunks of whole documents and store them; idempotent.",
        p.IndexRequest,
        p.Indexed,
        lambda service, request: service.index(request.collection, request.chunks),
        effect="writes",
        documents=lambda request: [chunk.doc_id for chunk in request.chunks],
    ),
    Operation(
        "ingest",
        "Normalize, chunk, embed and store raw documents; idempotent.",
        p.IngestRequest,
        p.Indexed,
        lambda service, request: service.ingest(request.collection, request.documents, request.policy),
        effect="writes",
        documents=lambda request: [document.doc_id for document in request.documents],
    ),
    Operation(
        "retrieve",
        "Find the best candidates for a query by vector, by term, or both.",
        p.RetrieveRequest,
        p.Candidates,
        lambda service, request: {"candidates": service.retrieve(request.collection, request.query, request.plan)},
    ),
    Operation(
        "fuse",
        "Merge ranked lists into one.",
        p.FuseRequest,
        p.Candidates,
        lambda service, request: {
            "candidates": service.fuse(
                request.candidate_sets, request.method, request.params.model_dump(exclude_none=True)
            )
        },
    ),
    Operation(
        "rerank",
        "Score candidates anew by a reranker of the server.",
        p.RerankRequest,
        p.Candidates,
        lambda service, request: {"candidates": service.rerank(request.query, request.candidates, request.model)},
    ),
    Operation(
        "compress",
        "Cut candidates down to the sentences that matter for the query.",
        p.CompressRequest,
        p.Excerpts,
        lambda service, request: {"excerpts": service.compress(request.query, request.candidates, request.policy)},
    ),
    Operation("package", "Put candidates and excerpts into one answer.", p.PackageRequest, p.Package, _package),
    Operation(
        "list_collections",
        "List the collections.",
        p.NoArguments,
        p.Collections,
        lambda service, _: {"collections": service.collections()},
        method="GET",
        path="/v1/collections",
    ),
    Operation(
        "create_collection",
        "Make a collection unless it is there; idempotent.",
        p.NewCollection,
        Collection,
        lambda service, request: service.create_collection(request.collection, request.embedder, request.analyzer),
        path="/v1/collections",
        effect="writes",
        documents=lambda _: [],
    ),
    Operation(
        "get_collection",
        "Describe a collection and count what it holds.",
        p.InCollection,
        p.CollectionInfo,
        _describe,
        method="GET",
        path="/v1/collections/{collection}",
    ),
    Operation(
        "delete_collection",
        "Delete a collection with all it holds.",
        p.InCollection,
        p.Dropped,
        lambda service, request: {"dropped": service.drop_collection(request.collection)},
        method="DELETE",
        path="/v1/collections/{collection}",
        effect="deletes",
    ),
    Operation(
        "list_documents",
        "List document ids, page by page.",
        p.DocumentPage,
        p.DocumentIds,
        lambda service, request: {"doc_ids": service.doc_ids(request.collection, request.after, request.limit)},
        method="GET",
        path="/v1/collections/{collection}/documents",
    ),
    Operation(
        "delete_documents",
        "Delete documents with their chunks.",
        p.SomeDocuments,
        p.Deleted,
        lambda service, request: {"deleted": service.delete_documents(request.collection, request.doc_ids)},
        method="DELETE",
        path="/v1/collections/{collection}/documents",
        effect="deletes",
        documents=lambda request: request.doc_ids,
    ),
    Operation(
        "get_chunks",
        "Get a document's metadata and its chunks in order; none if it is not there.",
        p.OneDocument,
        p.DocumentChunks,
        _document,
        method="GET",
        path="/v1/collections/{collection}/chunks",
    ),
)
