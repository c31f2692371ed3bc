import copy
import json
import pickle

import pytest

from ragtune import Corpus, CostBudget, Document, RAGtuneController
from ragtune.assemblers.greedy import GreedyAssembler
from ragtune.core.errors import ConfigError
from ragtune.core.types import CostObject
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.reformulators.identity import IdentityReformulator
from ragtune.rerankers.noop import NoOpReranker
from ragtune.retrievers.in_memory import InMemoryRetriever
from ragtune.schedulers.greedy import GreedyScheduler


def test_no_reranker_at_all_is_refused(fakes):
    with pytest.raises(ConfigError, match="at least one strategy"):
        fakes.controller(reranker={})


def test_a_controller_travels_to_another_process_without_what_it_has_learned():
    corpus = Corpus([Document(id="a", text="green tea"), Document(id="b", text="black tea")])
    controller = RAGtuneController(
        retriever=InMemoryRetriever(corpus),
        reformulator=IdentityReformulator(),
        estimator=BaselineEstimator(),
        scheduler=GreedyScheduler(),
        reranker=NoOpReranker(),
        assembler=GreedyAssembler(),
        budget=CostBudget.unlimited(),
    )
    here = controller.run("tea")
    there = pickle.loads(pickle.dumps(controller)).run("tea")
    assert (there.ranking, there.stop) == (here.ranking, here.stop)
    assert there.ranking == ("a", "b")


def test_the_documents_travel_without_the_rest_of_the_pool(fakes):
    room_for_one = CostBudget(max_tokens=10)
    cut = fakes.controller(documents=fakes.docs(7), assembler=GreedyAssembler(), budget=room_for_one).run("q")
    (document,) = cut.documents
    written = pickle.dumps(cut.documents)
    assert [name for name in cut.ranking if name.encode() in written] == [document.id]
    assert pickle.loads(written) == copy.deepcopy(cut.documents) == cut.documents


def test_the_output_can_be_written_as_json(fakes):
    output = fakes.controller(documents=fakes.docs(7)).run("q")
    plain = json.loads(output.model_dump_json())
    assert [doc["id"] for doc in plain["documents"]] == list(output.ranking)
    assert [step["cost"]["docs"] for step in plain["history"]] == [0, 5, 7]
    assert [tuple(step["ranking"]) for step in plain["history"]] == [step.ranking for step in output.history]
    assert len(plain["trace"]["events"]) == len(output.trace.events)


def test_without_an_id_a_query_gets_a_stable_one_of_its_own(fakes):
    ids = [fakes.controller().run(query).query_id for query in ("a", "a", "b")]
    assert ids[0] == ids[1] != ids[2]


def test_the_trace_tells_the_story_in_order(fakes):
    output = fakes.controller(documents=fakes.docs(3)).run("q")
    assert [(event.component, event.action) for event in output.trace.events] == [
        ("controller", "retrieve"),
        ("controller", "pool"),
        ("scheduler", "propose"),
        ("budget", "consume_rerank"),
        ("reranker", "rerank"),
        ("controller", "stop"),
        ("assembler", "assemble"),
    ]


def test_time_is_virtual_only_if_every_reranker_is_recorded(fakes):
    def elapsed(*recorded: bool) -> float:
        cost = CostObject(docs=5, calls=1, latency_ms=1e7)
        rerankers = {str(i): fakes.Reranker(recorded=r, cost=lambda items: cost) for i, r in enumerate(recorded)}
        scheduler = fakes.Scheduler(strategy="0")
        return fakes.controller(reranker=rerankers, scheduler=scheduler).run("q").final_budget_state["latency"]

    assert elapsed(True, True) == 4e7
    assert 4e7 < elapsed(True, False) < 5e7  # recorded time counts on a real clock too
    assert 0 < elapsed(False) < 1e7
