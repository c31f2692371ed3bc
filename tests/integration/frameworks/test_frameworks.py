"""The adapters of frameworks, with the real ones: each says what the facade says, in its framework's words."""

import asyncio
import functools
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from framework_rankers import BUDGET, CLASSES, SCORES, VECTORS, adapter, ranked_by
from overlap import QUERY, TEXTS, overlap

from ragtune import BudgetedReranker
from ragtune.core.errors import InputError, MissingExtraError

ALL = pytest.mark.parametrize("framework", CLASSES)


@pytest.fixture(autouse=True)
def no_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")


@ALL
@pytest.mark.parametrize("given", ["an order", "scores", "scores and vectors", "signals"])
def test_an_adapter_gives_the_ranking_of_the_facade(framework: str, given: str) -> None:
    scores = SCORES if "scores" in given else None
    vectors = VECTORS if "vectors" in given and framework != "langchain" else None
    clicks = [None, *range(len(TEXTS) - 1)] if given == "signals" else None
    options = {"signals": ["clicks"]} if clicks and framework != "sentence_transformers" else {}
    signals = None if clicks is None else {"clicks": clicks}
    expected = BudgetedReranker(overlap, **BUDGET).rank(QUERY, TEXTS, scores, vectors=vectors, signals=signals)
    found = ranked_by(framework, TEXTS, scores, vectors, clicks, **options)
    assert [text for text, _ in found] == [document.document for document in expected]
    assert [score for _, score in found] == [document.reranker_score for document in expected]


@pytest.mark.parametrize("framework", ["llamaindex", "haystack"])
def test_scores_or_vectors_that_one_document_lacks_are_left_aside(framework: str) -> None:
    lacking = [None, *SCORES[1:]], [None, *VECTORS[1:]]
    assert ranked_by(framework, TEXTS, *lacking) == ranked_by(framework, TEXTS)


@ALL
def test_an_adapter_takes_a_reranker_that_is_there_already(framework: str) -> None:
    made, by = adapter(framework), CLASSES[framework][1]
    reranker = BudgetedReranker(overlap, **BUDGET)
    assert by(lambda: made(reranker), TEXTS) == ranked_by(framework, TEXTS)
    with pytest.raises(InputError, match="has its options already: docs cannot be given"):
        made(reranker, docs=3)
    with pytest.raises(InputError, match="no budget given"):
        made(overlap)


@ALL
def test_nothing_found_is_nothing_ranked_and_bad_input_is_named(framework: str) -> None:
    assert ranked_by(framework, []) == []
    with pytest.raises(InputError, match="policy='best'"):
        ranked_by(framework, TEXTS, policy="best")


@ALL
def test_a_reranker_that_fails_leaves_the_first_stages_order_and_the_log_says_so(
    framework: str, caplog: pytest.LogCaptureFixture
) -> None:
    def dead(query: str, texts: Sequence[str]) -> list[float]:
        raise ConnectionError("upstream is away")

    made, by = adapter(framework)(dead, **BUDGET), CLASSES[framework][1]
    for _ in range(4):
        caplog.clear()
        assert [text for text, _ in by(lambda: made, TEXTS)] == list(TEXTS)
        [told] = caplog.messages
        assert "upstream is away" in told
    assert told.startswith("the model fails")  # and is not asked any more
    caplog.clear()
    ranked_by(framework, TEXTS)
    assert caplog.messages == []


@pytest.mark.parametrize("framework", [name for name in CLASSES if name != "sentence_transformers"])
def test_top_k_documents_are_handed_on(framework: str) -> None:
    assert ranked_by(framework, TEXTS, top_k=3) == ranked_by(framework, TEXTS)[:3]


@pytest.mark.parametrize(
    ("framework", "package"),
    [
        ("pyterrier", "pyterrier"),
        ("langchain", "langchain_core"),
        ("llamaindex", "llama_index"),
        ("haystack", "haystack"),
    ],
)
def test_an_adapter_without_its_framework_names_the_extra(
    framework: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"ragtune.frameworks.{framework}", raising=False)
    with pytest.raises(MissingExtraError, match=rf"pip install 'ragtune\[{framework}\]'"):
        importlib.import_module(f"ragtune.frameworks.{framework}")


def frame() -> Any:
    import pandas as pd

    queries = {"q2": QUERY, "q1": "hot tea"}
    rows = [(qid, query, f"d{i}", text, 10.0 - i, i) for qid, query in queries.items() for i, text in enumerate(TEXTS)]
    found = pd.DataFrame(rows, columns=["qid", "query", "docno", "text", "score", "rank"])
    return found.assign(own=found.qid + found.text)


def test_pyterrier_pipelines_cut_compare_and_keep_columns() -> None:
    import pandas as pd
    import pyterrier as pt

    found = frame()
    first = pt.Transformer.from_df(found)
    pipeline = first >> adapter("pyterrier")(overlap, **BUDGET)
    topics = found[["qid", "query"]].drop_duplicates()
    best = (pipeline % 2)(topics)
    assert best.groupby("qid")["docno"].first().to_dict() == {"q1": "d1", "q2": "d2"}
    assert best["rank"].tolist() == [0, 1, 0, 1]
    assert (best["own"] == best["qid"] + best["text"]).all()
    qrels = pd.DataFrame([{"qid": "q1", "docno": "d1", "label": 1}, {"qid": "q2", "docno": "d2", "label": 1}])
    measured = pt.Experiment([first, pipeline], topics, qrels, ["recip_rank"], names=["first", "ours"], plan="tree")
    assert measured["recip_rank"].tolist() == [pytest.approx((1 / 2 + 1 / 3) / 2), 1.0]


def test_pyterrier_sees_what_the_transformer_needs_and_gives() -> None:
    import pyterrier as pt

    transformer = adapter("pyterrier")(overlap, **BUDGET)
    assert pt.inspect.transformer_inputs(transformer) == [["qid", "query", "docno", "text"]]
    assert pt.inspect.transformer_outputs(transformer, ["qid", "query", "docno", "text"])[-2:] == ["score", "rank"]
    again = pt.inspect.transformer_apply_attributes(transformer, top_k=1)
    assert len(again(frame())) == 2
    with pytest.raises(pt.validate.InputValidationError, match="text"):
        transformer(frame().drop(columns="text"))
    with pytest.raises(InputError, match=r"2 of \d+ rows have no qid"):
        transformer(frame().assign(qid=[None, None, *frame()["qid"][2:]]))
    by_rank = frame().drop(columns="score")
    assert transformer(by_rank.iloc[::-1])["text"].tolist()[8:] == transformer(by_rank)["text"].tolist()[:8]


def test_pyterrier_scans_budgets_and_saves_runs_by_name(tmp_path: Path) -> None:
    import pyterrier as pt

    found = frame()
    topics = found[["qid", "query"]].drop_duplicates()
    qrels = found.loc[found["docno"] == "d1", ["qid", "docno"]].assign(label=1)
    make = functools.partial(adapter("pyterrier"), overlap)
    transformer, first = make(**BUDGET), pt.Transformer.from_df(found)
    scanned = pt.GridScan(
        first >> transformer, {transformer: {"docs": [1, 3]}}, topics, qrels, ["recip_rank"], dataframe=True
    )
    assert scanned["tran_0_docs"].tolist() == [1, 3]
    alone = pt.Experiment([first >> make(**BUDGET | {"docs": docs}) for docs in (1, 3)], topics, qrels, ["recip_rank"])
    assert scanned["recip_rank"].tolist() == alone["recip_rank"].tolist()
    pt.Experiment([transformer], found, qrels, ["recip_rank"], save_dir=str(tmp_path))
    assert (tmp_path / f"{transformer!r}.res.gz").is_file()


def test_no_two_scores_of_a_pyterrier_ranking_are_equal_to_a_measure() -> None:
    from ragtune.frameworks.pyterrier import strictly_falling

    scores = strictly_falling([1.0, 0.5, 0.5, 0.5, 0.5 - 1e-12, 0.25, 0.0, 0.0, 0.0])
    assert (np.diff(np.array(scores, dtype=np.float32)) < 0).all()
    assert [scores[i] for i in (0, 1, 5, 6)] == [1.0, 0.5, 0.25, 0.0]
    assert min(scores) == pytest.approx(0.0, abs=1e-40)


def test_a_retriever_of_langchain_is_reranked_in_both_worlds() -> None:
    from langchain_classic.retrievers import ContextualCompressionRetriever
    from langchain_core.documents import Document
    from langchain_core.runnables import RunnableLambda

    documents = [Document(text, id=str(i), metadata={"page": i}) for i, text in enumerate(TEXTS)]
    compressor = adapter("langchain")(overlap, top_k=3, **BUDGET)
    base = RunnableLambda(lambda query: documents)
    retriever = ContextualCompressionRetriever(base_compressor=compressor, base_retriever=base)
    found = retriever.invoke(QUERY)
    assert [document.page_content for document in found][:1] == [QUERY]
    assert [document.id for document in found] == [str(document.metadata["page"]) for document in found]
    assert asyncio.run(retriever.ainvoke(QUERY)) == found
    assert [document.metadata for document in documents] == [{"page": i} for i in range(len(TEXTS))]
    assert compressor.compress_documents((one for one in documents), QUERY) == found
    in_order = [Document(one.page_content) for one in found]
    again, plain = (compressor.compress_documents(given, QUERY) for given in (found, in_order))
    assert [one.page_content for one in again] == [one.page_content for one in plain]  # estimates are no first stage
    with pytest.raises(ValueError, match="frozen"):
        compressor.model = overlap
    assert "overlap" in repr(compressor)
    assert type(compressor).model_validate(compressor.model_dump()).compress_documents(documents, QUERY) == found


def test_llamaindex_sees_the_reranking_in_its_events_and_callbacks() -> None:
    from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
    from llama_index.core.instrumentation import get_dispatcher
    from llama_index.core.instrumentation.event_handlers import BaseEventHandler
    from llama_index.core.schema import NodeWithScore, TextNode

    seen: list[Any] = []

    class Keep(BaseEventHandler):
        def handle(self, event: Any, **further: Any) -> None:
            seen.append(event)

    debug = LlamaDebugHandler(print_trace_on_end=False)
    postprocessor = adapter("llamaindex")(overlap, callback_manager=CallbackManager([debug]), **BUDGET)
    root = get_dispatcher()
    root.add_event_handler(Keep())
    try:
        found = postprocessor.postprocess_nodes([NodeWithScore(node=TextNode(text=t)) for t in TEXTS], query_str=QUERY)
    finally:
        root.event_handlers.pop()
    start, end = seen
    assert (start.class_name(), start.model_name, start.query.query_str) == ("ReRankStartEvent", "overlap", QUERY)
    assert (end.class_name(), end.nodes) == ("ReRankEndEvent", found)
    assert len(debug.get_event_pairs(CBEventType.RERANKING)) == 1
    assert type(postprocessor).from_dict(postprocessor.to_dict(), model=overlap).options == BUDGET


def test_a_query_engine_of_llamaindex_reranks_what_it_retrieves() -> None:
    from llama_index.core import QueryBundle, get_response_synthesizer
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, TextNode

    nodes = [NodeWithScore(node=TextNode(id_=str(i), text=text)) for i, text in enumerate(TEXTS)]

    class Given(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return nodes

    postprocessor = adapter("llamaindex")(overlap, top_k=3, **BUDGET)
    answers = get_response_synthesizer(llm=MockLLM())
    engine = RetrieverQueryEngine(Given(), answers, node_postprocessors=[postprocessor])
    found = engine.query(QUERY).source_nodes
    assert [node.text for node in found][:1] == [QUERY]
    assert asyncio.run(postprocessor.apostprocess_nodes(nodes, query_str=QUERY)) == found
    assert [node.score for node in nodes] == [None] * len(nodes)
    with pytest.raises(InputError, match="nodes without a query"):
        postprocessor.postprocess_nodes(nodes)


def test_pairs_are_scored_within_the_budget_of_each_query_and_arguments_of_the_model_are_refused() -> None:
    encoder = adapter("sentence_transformers")(overlap, **BUDGET)
    pairs = [pair for text in TEXTS for pair in ((QUERY, text), ("another query", text))]
    scores = encoder.predict(pairs, batch_size=8, show_progress_bar=False)
    by_rank = {hit["corpus_id"]: hit["score"] for hit in encoder.rank(QUERY, TEXTS, chunk_size=None, device="cpu")}
    assert scores[::2] == pytest.approx([by_rank[i] for i in range(len(TEXTS))])
    with pytest.raises(InputError, match="prompt: give it to the CrossEncoder"):
        encoder.rank(QUERY, TEXTS, prompt="judge: ")
    with pytest.raises(InputError, match=r"min_score: allowed in rank\(\)"):
        encoder.predict(pairs, min_score=0.9)
    assert encoder.predict(np.array(pairs)) == pytest.approx(scores)
    assert encoder.predict(pairs, convert_to_tensor=True).tolist() == pytest.approx(scores)
    assert isinstance(encoder.predict(pairs[0]), np.float32)
    with pytest.raises(InputError, match="pair 0 is 'a'"):
        encoder.predict(["a", "b", "c"])


def test_a_pipeline_of_haystack_comes_back_from_its_file_and_ranks_the_same() -> None:
    from haystack import Document, Pipeline
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    store = InMemoryDocumentStore(index="adapters")
    store.write_documents([Document(content=text) for text in TEXTS])
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store))
    pipeline.add_component("ranker", adapter("haystack")(overlap, top_k=3, policy="settled", **BUDGET))
    pipeline.connect("retriever", "ranker")
    asked = {"retriever": {"query": QUERY}, "ranker": {"query": QUERY}}
    found = pipeline.run(asked)["ranker"]["documents"]
    assert [document.content for document in found][:1] == [QUERY]
    assert len(found) == 3
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=["ragtune.frameworks.haystack", "overlap"])
    assert again.to_dict() == pipeline.to_dict()
    assert asyncio.run(again.run_async(asked))["ranker"]["documents"] == found
    asked["ranker"]["top_k"] = 1
    assert pipeline.run(asked)["ranker"]["documents"] == found[:1]
    twice = [Document(content=text, id="same", score=score) for text, score in (("first", 0.1), ("best", 0.9))]
    assert [one.content for one in adapter("haystack")(overlap, docs=1).run(QUERY, twice)["documents"]] == ["best"]
    with pytest.raises(ValueError, match="top_k=0"):
        adapter("haystack")(overlap, docs=1, top_k=0)


def test_what_haystack_cannot_write_down_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from haystack import Pipeline
    from haystack.core.errors import SerializationError

    ranker = adapter("haystack")
    unwritten = {
        "'BudgetedReranker' .* key 'model'": ranker(BudgetedReranker(overlap, docs=1)),
        "'partial' .* key 'model'": ranker(functools.partial(overlap), docs=1),
        "lambdas": ranker(lambda query, texts: [], docs=1),
    }
    for why, component in unwritten.items():
        pipeline = Pipeline()
        pipeline.add_component("ranker", component)
        with pytest.raises(SerializationError, match=why):
            pipeline.dumps()
    named = ranker("some/model", docs=3).to_dict()["init_parameters"]
    assert named == {"model": "some/model", "top_k": None, "signals": [], "docs": 3}
    warmed: list[bool] = []
    reranker = BudgetedReranker(overlap, docs=1)
    monkeypatch.setattr(reranker, "warm_up", lambda: warmed.append(True))
    ranker(reranker).warm_up()
    assert warmed == [True]


def test_mteb_evaluates_a_budgeted_reranker_on_a_local_task(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MTEB_CACHE", str(tmp_path))
    import mteb
    from mteb.mocks.mock_tasks.reranking import MockRerankingTask

    from datasets import Dataset

    ids = [str(place) for place in range(len(TEXTS))]
    split = {
        "corpus": Dataset.from_dict({"id": ids, "title": [""] * len(ids), "text": list(TEXTS)}),
        "queries": Dataset.from_dict({"id": ["q"], "text": [QUERY]}),
        "relevant_docs": {"q": {ids[TEXTS.index(QUERY)]: 1}},
        "top_ranked": {"q": ids},
    }

    class Local(MockRerankingTask):
        def load_data(self, **_: Any) -> None:
            self.dataset, self.data_loaded = {"default": {"test": split}}, True

    model = importlib.import_module("ragtune.frameworks.mteb").BudgetedSearch(overlap, **BUDGET)
    [result] = mteb.evaluate(model, [Local()], cache=None).task_results
    assert (result.scores["test"][0]["mrr_at_10"], model.cost.docs) == (1.0, BUDGET["docs"])
    with pytest.raises(InputError, match="a task without candidates"):
        model.search(split["queries"], top_k=3)
