from __future__ import annotations

import math
from pathlib import Path

import pytest
from pydantic import ValidationError

from ragtune import ScoredDocument
from ragtune.core import interfaces
from ragtune.core.types import CostObject


def test_documents_are_frozen_and_hashable():
    doc = ScoredDocument(id="d", metadata={"title": "t"}, sources={"bm25": 1.0})
    with pytest.raises(ValidationError):
        doc.score = 1.0
    assert doc in {doc}
    assert len({doc, ScoredDocument(id="d"), ScoredDocument(id="e")}) == 3


def test_costs_add_up_in_every_unit():
    one = CostObject(tokens=1, docs=2, calls=3, latency_ms=4.5, usd=0.25)
    assert one + one == CostObject(tokens=2, docs=4, calls=6, latency_ms=9.0, usd=0.5)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1])
@pytest.mark.parametrize("unit", ["tokens", "latency_ms"])
def test_a_cost_is_always_finite_and_never_negative(unit, bad):
    with pytest.raises(ValidationError, match=unit):
        CostObject(**{unit: bad})


INTERFACES = [kind for kind in vars(interfaces).values() if getattr(kind, "__module__", "") == interfaces.__name__]


@pytest.mark.parametrize("interface", INTERFACES, ids=lambda interface: interface.__name__)
def test_every_interface_says_in_one_line_what_state_may_be_kept(interface):
    said = [line.strip() for line in interface.__doc__.splitlines() if line.strip().startswith("State:")]
    assert len(said) == 1
    assert said[0].endswith(".")


PACKAGE = Path(interfaces.__file__).parents[1]


def test_no_module_of_the_core_or_the_llm_layer_is_too_long_for_one_sitting():
    modules = [*(PACKAGE / "core").rglob("*.py"), *(PACKAGE / "llm").rglob("*.py")]
    assert [file.name for file in modules if len(file.read_text(encoding="utf-8").splitlines()) > 350] == []
