"""Whatever strings come in over REST, PostgreSQL behind it answers what the library answers from memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from postgres_server import fresh_dsn
from pydantic import ValidationError
from starlette.testclient import TestClient

from ragtune.canonical import Filters, RetrievalPlan, SourceDocument, chunk, index, retrieve
from ragtune.canonical.service import RagService
from ragtune.canonical.store.database import PostgresDatabase
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.core.errors import InputError
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.services.application import create_application

EMBEDDER = HashingEmbedder(dims=8)
INJECTIONS = (
    "'; DROP SCHEMA ragtune CASCADE; --",
    '") OR 1=1; --',
    "$1 %s %(query)s {0}",
    "\\'); COPY x TO PROGRAM 'id'; --",
    "tea' & !'time':* <-> ",
    "{a,NULL}",
    "../..%2f?#",
    "\u202e\u0000",
)
text = st.one_of(st.sampled_from(INJECTIONS), st.text(st.characters(exclude_categories=["Cs"]), max_size=8))
objects = st.dictionaries(text, st.one_of(text, st.integers(-9, 9), st.none(), st.lists(text, max_size=2)), max_size=2)
documents = st.builds(
    dict,
    doc_id=text,
    content=st.lists(st.one_of(st.sampled_from(["tea", "time"]), text), max_size=4).map(" ".join),
    tags=st.lists(text, max_size=2),
    metadata=objects,
)
filters = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {}, optional={"tags_any": st.lists(text, max_size=2), "tags_all": st.lists(text, max_size=1)}
    ),
    st.fixed_dictionaries({"metadata": objects}),
)


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with PostgresDatabase(fresh_dsn()) as database:
        app = create_application(RagService(database, {"hashing": EMBEDDER}))
        yield TestClient(app, base_url="http://localhost")


def answer(response: Any) -> Any:
    """What was answered; None if the request was refused, as only a bad one may be."""
    assert response.status_code in (200, 422), response.text
    return response.json() if response.status_code == 200 else None


def library(work: Any) -> Any:
    try:
        return work()
    except (InputError, ValidationError):
        return None


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=documents, query=text, mode=st.sampled_from(["vector", "lexical", "hybrid"]), where=filters)
def test_strings_are_values_and_nothing_else(
    client: TestClient, document: dict[str, Any], query: str, mode: str, where: dict[str, Any]
) -> None:
    client.delete("/v1/collections/c")
    assert client.post("/v1/collections", json={"collection": "c"}).status_code == 200
    store = MemoryDatabase().open("c", EMBEDDER, create=True)
    known = {"doc_id": "known", "content": "tea time", "tags": ["'"], "metadata": {"'": '"'}}
    for one in (known, document):
        sent = answer(client.post("/v1/ingest", json={"collection": "c", "documents": [one]}))
        made = library(lambda one=one: index(chunk(SourceDocument.model_validate(one)), store))
        assert (sent is None) == (made is None)
        if sent is not None:
            assert sent["keys"] == made["keys"]
            found = client.get("/v1/collections/c/chunks", params={"doc_id": one["doc_id"]}).json()
            kept = [row.model_dump(mode="json") for row in store.chunks(one["doc_id"])]
            assert found == {"chunks": kept, "metadata": one.get("metadata", {}) if kept else {}}
    plan = {"mode": mode, "filters": where}
    got = answer(client.post("/v1/retrieve", json={"collection": "c", "query": query, "plan": plan}))
    expected = library(lambda: retrieve(query, RetrievalPlan(mode=mode, filters=Filters(**where)), store))
    assert got == (None if expected is None else {"candidates": [one.model_dump(mode="json") for one in expected]})
    ids = client.get("/v1/collections/c/documents").json()["doc_ids"]
    assert ids == store.doc_ids()
    assert client.delete("/v1/collections/c/documents", params={"doc_ids": ids}).json() == {"deleted": len(ids)}
