from __future__ import annotations

import subprocess
import sys

from ragtune import CostBudget
from ragtune.core.request.context import CostMeter, RAGtuneContext
from ragtune.core.types import CostObject


def context(query_id: str = "q1", seed: int = 0) -> RAGtuneContext:
    return RAGtuneContext(query="text", query_id=query_id, seed=seed, tracker=CostBudget().create_tracker())


def draw(ctx: RAGtuneContext, purpose: str = "sample") -> list[int]:
    return ctx.rng(purpose).integers(0, 2**31, size=4).tolist()


def test_randomness_depends_on_seed_query_and_purpose_only():
    assert draw(context()) == draw(context())
    different = [draw(context()), draw(context("q2")), draw(context(seed=1)), draw(context(), "other")]
    assert len({tuple(values) for values in different}) == 4


def test_randomness_does_not_depend_on_what_was_drawn_before():
    ctx = context()
    expected = draw(ctx, "b")
    draw(ctx, "a")
    assert draw(ctx, "b") == expected


def test_randomness_is_the_same_in_another_process():
    program = (
        "from ragtune import CostBudget\n"
        "from ragtune.core.request.context import RAGtuneContext\n"
        "ctx = RAGtuneContext(query='text', query_id='q1', tracker=CostBudget().create_tracker())\n"
        "print(ctx.rng('sample').integers(0, 2**31, size=4).tolist())"
    )
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str(draw(context()))


def test_memory_is_made_once_an_owner_and_request():
    owner, other, ctx = object(), object(), context()
    made: list[int] = []
    for _ in range(3):
        assert ctx.remember(owner, lambda: made.append(1) or ["mine"]) == ["mine"]
    assert made == [1]
    assert ctx.remember(other, lambda: ["other's"]) == ["other's"]
    assert context().remember(owner, lambda: ["new"]) == ["new"]


def test_memory_may_hold_none():
    owner, ctx = object(), context()
    assert ctx.remember(owner, lambda: None) is None
    assert ctx.remember(owner, lambda: "second") is None


def test_memory_is_not_inherited_from_an_owner_that_is_gone():
    ctx = context()
    states = [ctx.remember(object(), lambda i=i: i) for i in range(50)]
    assert states == list(range(50))


def test_rounds_of_one_request_share_its_memory():
    owner, ctx = object(), context()
    ctx.remember(owner, lambda: "state")
    rewrite = ctx.model_copy(update={"query": "other", "round": "rewrite_0"})
    assert rewrite.remember(owner, lambda: "again") == "state"


def test_the_meter_adds_up_what_is_paid_and_what_is_charged():
    meter = CostMeter()
    assert (meter.charged, meter.actual) == (None, CostObject())
    for _ in range(2):
        meter.pay(CostObject(tokens=3))
        meter.charge(CostObject(tokens=5))
    assert (meter.charged, meter.actual) == (CostObject(tokens=10), CostObject(tokens=6))
