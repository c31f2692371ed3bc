"""Every other component keeps its contract: a suite over a table of factories. Add a line to cover a new component."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from postgres_server import fresh_dsn

from ragtune.acquisitions.thompson import ThompsonAcquisition
from ragtune.acquisitions.upper_confidence import UpperConfidenceAcquisition
from ragtune.assemblers.greedy import GreedyAssembler
from ragtune.canonical.chunking import chunk
from ragtune.canonical.ingestion import ingest
from ragtune.canonical.policies import ChunkPolicy
from ragtune.canonical.retrievers.postgres import PostgresRetriever
from ragtune.canonical.sources import source_of
from ragtune.canonical.store.database import PostgresDatabase
from ragtune.core.pool.ordering import Ordering
from ragtune.core.types import ScoredDocument
from ragtune.embedders.candidates import CandidateVectors
from ragtune.embedders.dense_vectors import DenseVectors
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.embedders.openai_compatible import OpenAICompatibleEmbedder
from ragtune.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.expanders.corpus_graph import CorpusGraphExpander
from ragtune.expanders.none import NoExpander
from ragtune.fusion.concat import ConcatFusion
from ragtune.fusion.rrf import RRFFusion
from ragtune.llm.client import LLMClient
from ragtune.llm.prompts import PromptLibrary
from ragtune.reformulators.identity import IdentityReformulator
from ragtune.reformulators.llm_rewrite import LLMReformulator
from ragtune.reformulators.rm3 import RM3Reformulator
from ragtune.rerankers.function import FunctionReranker
from ragtune.rerankers.http.reranker import HttpReranker
from ragtune.rerankers.llm.listwise import LLMListwiseReranker
from ragtune.rerankers.llm.pointwise import LLMPointwiseReranker
from ragtune.rerankers.llm.setwise import LLMSetwiseReranker
from ragtune.rerankers.models.bi_encoder import BiEncoderReranker
from ragtune.rerankers.models.cross_encoder import CrossEncoderReranker
from ragtune.rerankers.noop import NoOpReranker
from ragtune.rerankers.ordering import OrderingReranker
from ragtune.rerankers.replay import ReplayReranker
from ragtune.rerankers.simulated import SimulatedReranker
from ragtune.retrievers.bm25 import BM25Retriever
from ragtune.retrievers.dense import DenseRetriever
from ragtune.retrievers.hybrid import HybridRetriever
from ragtune.retrievers.in_memory import InMemoryRetriever
from ragtune.retrievers.rank_bm25 import RankBM25Retriever
from ragtune.retrievers.runs import RunsRetriever
from ragtune.signals.lexical import LexicalSignal
from ragtune.signals.metadata import MetadataSignal
from ragtune.signals.table import TableSignal
from ragtune.signals.vectors import VectorsSignal
from ragtune.superprompt.retriever import SuperPromptRetriever
from ragtune.testing import (
    AcquisitionContract,
    AssemblerContract,
    ComparingRerankerContract,
    EmbedderContract,
    ExpanderContract,
    FusionContract,
    ReformulatorContract,
    RerankerContract,
    RetrieverContract,
    SignalContract,
    UnorderedFusionContract,
    make_context,
    small_corpus,
)
from ragtune.testing.retrieval import finds

CORPUS = small_corpus()


class Session:
    """What factories need of a test: models and servers of this machine, files of its own."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.request = request

    def __getitem__(self, fixture: str) -> Any:
        return self.request.getfixturevalue(fixture)

    def written(self, lines: list[str]) -> Path:
        file = Path(self["tmp_path"], "numbers.csv")
        file.write_text("\n".join(lines), encoding="utf-8")
        return file

    def run(self, first: str = "heart-1") -> str:
        """A TREC run for the contract's one query id: every document, the given one first."""
        ids = sorted(CORPUS.doc_ids, key=lambda doc_id: doc_id != first)
        return str(self.written([f"q1 Q0 {doc_id} {rank} {1.0 / rank} recorded" for rank, doc_id in enumerate(ids, 1)]))

    def client(self) -> LLMClient:
        """A model on a server of this machine, with prices."""
        prices = {"test": {"prompt": 0.001, "completion": 0.002}}
        client = LLMClient(model="test", base_url=self["llm_server"].url, mode="live", prices=prices)
        self.request.addfinalizer(client.close)
        return client

    def http(self, dialect: str, **options: Any) -> HttpReranker:
        url = self["llm_server"].rerank_url(dialect)
        reranker = HttpReranker(url, "test", dialect, usd_per_search_unit=0.002, **options)
        self.request.addfinalizer(reranker.close)
        return reranker

    def minilm(self, **options: Any) -> SentenceTransformerEmbedder:
        return SentenceTransformerEmbedder(self["minilm"], device="cpu", **options)

    def loaded(self) -> SentenceTransformerEmbedder:
        """One for all tests of what uses an embedder: to load the model takes most of their time."""
        return _loaded(self["minilm"])


@cache
def _loaded(model: str) -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder(model, device="cpu")


Factory = Callable[[Session], Any]


def suite(contract: type, factories: Mapping[str, Factory]) -> type:
    class Suite(contract):  # type: ignore[misc]
        @pytest.fixture(autouse=True, params=factories)
        def chosen(self, request: pytest.FixtureRequest) -> None:
            self.factory, self.session = factories[request.param], Session(request)

        def make(self) -> Any:
            return self.factory(self.session)

    return Suite


TestAcquisitions = suite(
    AcquisitionContract,
    {"upper_confidence": lambda _: UpperConfidenceAcquisition(), "thompson": lambda _: ThompsonAcquisition(seed=7)},
)

TestAssemblers = suite(AssemblerContract, {order: lambda _, order=order: GreedyAssembler(order) for order in Ordering})

EMBEDDERS: dict[str, Factory] = {
    "openai_compatible": lambda session: OpenAICompatibleEmbedder(session.client()),
    "hashing": lambda _: HashingEmbedder(),
    "hashing_small": lambda _: HashingEmbedder(dims=64),
    "sentence_transformer": lambda session: session.minilm(batch_size=4),
    "sentence_transformer_short": lambda session: session.minilm(max_length=8),
    "tfidf": lambda _: TfidfEmbedder(CORPUS),
}
TestEmbedders = suite(EmbedderContract, EMBEDDERS)


def test_the_name_of_an_embedder_tells_settings_apart(request: pytest.FixtureRequest) -> None:
    assert len({make(Session(request)).name for make in EMBEDDERS.values()}) == len(EMBEDDERS)


TestConcat = suite(FusionContract, {"concat": lambda _: ConcatFusion()})
TestRRF = suite(
    UnorderedFusionContract,
    {
        "plain": lambda _: RRFFusion(),
        "weighted": lambda _: RRFFusion(k=1, weights={"a": 2.0, "b": 0.5}),
        "one_list_ignored": lambda _: RRFFusion(weights={"a": 0.0}),
    },
)

TestReformulators = suite(
    ReformulatorContract,
    {
        "identity": lambda _: IdentityReformulator(),
        "rm3": lambda _: RM3Reformulator(CORPUS),
        "rm3_small": lambda _: RM3Reformulator(CORPUS, fb_docs=2, fb_terms=3, min_df=1, resolution=20),
        "llm_rewrite": lambda session: LLMReformulator(session.client(), PromptLibrary()),
    },
)


def _table(header: str, line: str, **options: str) -> Factory:
    lines = [line.format(doc_id, i) for i, doc_id in enumerate(CORPUS.doc_ids) if i % 3]
    return lambda session: TableSignal(session.written([header, *lines]), **options)


class DatedContract(SignalContract):
    @property
    def documents(self) -> list[ScoredDocument]:
        dated = {"metadata": {"year": 1990}}, {"metadata": {"year": 2020.5}}, {}, {"metadata": {"year": None}}
        return [document.model_copy(update=dated[i % 4]) for i, document in enumerate(super().documents)]


TestSignals = suite(
    DatedContract,
    {
        "lexical": lambda _: LexicalSignal(),
        "vectors_tfidf": lambda _: VectorsSignal(CORPUS, TfidfEmbedder),
        "vectors_dense": lambda _: VectorsSignal(CORPUS, lambda corpus: DenseVectors(corpus, HashingEmbedder())),
        "vectors_candidates": lambda _: VectorsSignal(CORPUS, CandidateVectors),
        "metadata": lambda _: MetadataSignal("year", higher_is_better=False),
        "table_by_pair": _table("query_id,doc_id,score", "q1,{},{}.5"),
        "table_by_document": _table("doc_id,value", "{},{}", by="document"),
    },
)


@cache
def _ingested() -> str:
    """A database with the corpus in several chunks a document."""
    dsn = fresh_dsn()
    with PostgresDatabase(dsn) as database:
        store = database.open("corpus", HashingEmbedder(), create=True)
        ingest(map(source_of, CORPUS), store, partial(chunk, policy=ChunkPolicy(max_tokens=8)))
    return dsn


def _postgres(mode: str) -> Factory:
    return lambda _: PostgresRetriever(CORPUS, HashingEmbedder(), "corpus", dsn=_ingested(), mode=mode)


def _hybrid(_: Session) -> HybridRetriever:
    parts = {"bm25": BM25Retriever, "dense": lambda corpus: DenseRetriever(corpus, TfidfEmbedder(corpus))}
    return HybridRetriever(CORPUS, parts, RRFFusion(), depth_each=3)


TestRetrievers = suite(
    RetrieverContract,
    {
        **{f"postgres_{mode}": _postgres(mode) for mode in ("lexical", "vector", "hybrid")},
        "in_memory": lambda _: InMemoryRetriever(CORPUS),
        "bm25": lambda _: BM25Retriever(CORPUS),
        "bm25_robertson": lambda _: BM25Retriever(CORPUS, k1=0.9, b=0.4, method="robertson"),
        "rank_bm25": lambda _: RankBM25Retriever(CORPUS),
        "dense": lambda session: DenseRetriever(CORPUS, session.loaded()),
        "dense_tfidf": lambda _: DenseRetriever(CORPUS, TfidfEmbedder(CORPUS)),
        "hybrid": _hybrid,
        "runs": lambda session: RunsRetriever(CORPUS, session.run(first="ship-1")),
        "superprompt": lambda _: SuperPromptRetriever(CORPUS),
        "superprompt_tfidf": lambda _: SuperPromptRetriever(CORPUS, TfidfEmbedder(CORPUS)),
    },
)


def _shared_words(query: str, texts: list[str]) -> list[float]:
    words = set(query.split())
    return [len(words & set(text.split())) / len(words) for text in texts]


def _ordered(query: str, texts: list[str]) -> list[int]:
    shared = _shared_words(query, texts)
    return sorted(range(len(texts)), key=lambda i: -shared[i])


def _cross_encoder(session: Session, **options: Any) -> CrossEncoderReranker:
    return CrossEncoderReranker(str(session["tiny_cross_encoder"]), max_length=64, device="cpu", **options)


TestRerankers = suite(
    RerankerContract,
    {
        "noop": lambda _: NoOpReranker(),
        "cross_encoder": lambda session: _cross_encoder(session, batch_size=4, cache_dir=None),
        "cross_encoder_cached": _cross_encoder,
        "bi_encoder": lambda session: BiEncoderReranker(session.loaded(), batch_size=4, cache_dir=None),
        "bi_encoder_tfidf": lambda _: BiEncoderReranker(TfidfEmbedder(CORPUS), cache_dir=None),
        "replay": lambda session: ReplayReranker(session.run(), scale="identity"),
        "llm_pointwise": lambda session: LLMPointwiseReranker(session.client(), PromptLibrary()),
        "function": lambda _: FunctionReranker(_shared_words, usd_per_doc=0.001),
        "http": lambda session: session.http("cohere", batch_size=4, cache_dir=None),
        "http_cached": lambda session: session.http("tei"),
    },
)
TestComparingRerankers = suite(
    ComparingRerankerContract,
    {
        "simulated": lambda session: SimulatedReranker(session.run(), scale="identity", noise=0.3, position_bias=0.3),
        "llm_listwise": lambda session: LLMListwiseReranker(session.client(), PromptLibrary(), window=5, step=2),
        "llm_setwise": lambda session: LLMSetwiseReranker(session.client(), PromptLibrary(), set_size=3, top_k=4),
        "ordering": lambda _: OrderingReranker(_ordered, usd_per_call=0.001),
    },
)

EDGES = {
    "heart-1": {"bread-3": 0.9, "star-1": 0.8, "honey-1": 0.8},
    "heart-2": {"star-1": 0.9, "heart-1": 0.5},
    "ship-1": {"ship-2": 1.0, "bread-1": 0.1},
    "bread-3": {"bread-1": 0.9, "bread-2": 0.9},
}


def _corpus_graph(session: Session) -> CorpusGraphExpander:
    graph = session["make_graph"](Path(session["tmp_path"], "graph"), CORPUS, EDGES, 3)
    expander = CorpusGraphExpander(CORPUS, graph, NoOpReranker(), k=3, ordering="reranked_first")
    assert sum(len(found) for _, found in finds(expander, make_context(), 2)) >= 4, "the graph has something to find"
    return expander


TestExpanders = suite(ExpanderContract, {"none": lambda _: NoExpander(), "corpus_graph": _corpus_graph})
