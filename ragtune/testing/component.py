"""What all contracts share: a small collection, requests without limits, and what every component declares of files."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from ragtune.core.component import files_of
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import RAGtuneContext
from ragtune.data.corpus import Corpus, Document

TEXTS = {
    "heart-1": ("Heart", "The heart pumps blood through the body. Blood pressure rises when arteries narrow."),
    "heart-2": ("", "A diet low in salt lowers blood pressure and protects the heart."),
    "heart-3": ("Blood pressure", "High blood pressure strains the heart and the vessels; exercise lowers it."),
    "ship-1": ("Knots", "Sailors tie a bowline when a rope must hold a ship and still come loose."),
    "ship-2": ("", "The ship lay at anchor while the crew mended sails and ropes."),
    "bread-1": ("", "Knead the loaves and let them rise before baking the bread."),
    "bread-2": ("", "Knead the loaves and let them rise before baking the bread."),
    "bread-3": ("Honey bread", "Honey in bread keeps the crumb moist; knead the dough with warm water."),
    "honey-1": ("", "Honey, tea and lemon soothe a sore throat. Honey never spoils."),
    "tea-1": ("Café", "At the café they pour tea (茶) from a height, without honey."),
    "star-1": ("", "A star shines because hydrogen fuses to helium under its own pressure."),
    "blank-1": ("", ""),
}
"""Title and text by document id: four documents about one thing each, two alike, one without text."""


@cache
def small_corpus() -> Corpus:
    """The twelve documents of :data:`TEXTS`; always the same object."""
    return Corpus(Document(id=doc_id, title=title, text=text) for doc_id, (title, text) in TEXTS.items())


def small_pool_items() -> list[PoolItem]:
    """The small collection as candidates, in its own order, with falling first-stage scores."""
    corpus = small_corpus()
    docs = [corpus.scored(doc_id, 1.0 / (rank + 1)) for rank, doc_id in enumerate(corpus.doc_ids)]
    return [PoolItem.from_document(doc, rank, {"original": doc.score}) for rank, doc in enumerate(docs)]


def make_context(query: str = "query", **fields: Any) -> RAGtuneContext:
    """The context of a request with the id ``q1`` and no limits, but for the given fields."""
    defaults: dict[str, Any] = {"query_id": "q1", "tracker": CostBudget.unlimited().create_tracker()}
    return RAGtuneContext(query=query, **(defaults | fields))


class ComponentContract:
    """Base of all suites."""

    def make(self) -> Any:
        """A new component. Two of them must give the same answers."""
        raise NotImplementedError

    @property
    def corpus(self) -> Corpus:
        """The collection of the component."""
        return small_corpus()

    @pytest.fixture
    def made(self) -> Any:
        return self.make()

    def test_files_that_it_is_given_are_declared(self) -> None:
        kind: Any = type(self.make())
        if (constructor := kind.__init__) is object.__init__:
            return  # it takes no arguments
        reads, keeps = files_of(kind)
        with patch.object(kind, "__init__", autospec=True, side_effect=constructor) as recorded:
            self.make()
        given = inspect.signature(constructor).bind(*recorded.call_args.args, **recorded.call_args.kwargs)
        given.apply_defaults()
        assert set(reads) <= given.signature.parameters.keys(), "declare_files(reads=...) names no argument"
        for name, value in list(given.arguments.items())[1:]:
            further = given.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
            for argument, one in value.items() if further else [(name, value)]:
                assert argument in {*reads, *keeps} or not list(_paths(one)), (
                    f"{kind.__name__}({argument}={one!r}) names a file or folder: name the argument in "
                    "@declare_files(reads=...), or in keeps=... if the component writes it itself"
                )


def _paths(value: object) -> Iterator[Path]:
    """Files and folders that are there, of those that a value may name; a single word may be another kind of name."""
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _paths(one)
    elif isinstance(value, (str, Path)) and value:
        path = Path(value)
        with suppress(OSError, ValueError):  # it cannot be a path
            if path.is_file() or (path.is_dir() and len(path.parts) > 1):
                yield path
