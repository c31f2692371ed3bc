"""A bad option of a component is refused when it is made, by its name and value."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragtune import Corpus
from ragtune.acquisitions.thompson import ThompsonAcquisition
from ragtune.acquisitions.upper_confidence import UpperConfidenceAcquisition
from ragtune.core.errors import ConfigError
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.embedders.openai_compatible import OpenAICompatibleEmbedder
from ragtune.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.estimators.comparing.acurank import AcuRankEstimator
from ragtune.estimators.comparing.blitzrank import BlitzRankEstimator
from ragtune.estimators.comparing.jointrank import JointRankEstimator
from ragtune.estimators.comparing.plackett_luce import PlackettLuceEstimator
from ragtune.estimators.comparing.realm import REALMEstimator
from ragtune.estimators.comparing.sliding import SlidingEstimator
from ragtune.estimators.comparing.tdpart import TDPartEstimator
from ragtune.estimators.comparing.tourrank import TourRankEstimator
from ragtune.estimators.comparing.ts_setrank import TSSetRankEstimator
from ragtune.estimators.graph.gar import GAREstimator
from ragtune.estimators.graph.ore import OREEstimator
from ragtune.estimators.graph.quam import QuamEstimator
from ragtune.estimators.graph.rgs import RGSEstimator
from ragtune.estimators.posterior.bagel import BAGELEstimator
from ragtune.estimators.posterior.uncertainty import UncertaintyEstimator
from ragtune.expanders.corpus_graph import CorpusGraphExpander
from ragtune.fusion.rrf import RRFFusion
from ragtune.llm.client import LLMClient
from ragtune.reformulators.rm3 import RM3Reformulator
from ragtune.rerankers.noop import NoOpReranker
from ragtune.retrievers.bm25 import BM25Retriever
from ragtune.retrievers.hybrid import HybridRetriever
from ragtune.retrievers.rank_bm25 import RankBM25Retriever
from ragtune.schedulers.cascade import CascadeScheduler
from ragtune.schedulers.gate import GateScheduler
from ragtune.schedulers.greedy import GreedyScheduler
from ragtune.schedulers.one_shot import OneShotScheduler
from ragtune.schedulers.settled import SettledScheduler
from ragtune.schedulers.sliding_window import SlidingWindowScheduler
from ragtune.signals.metadata import MetadataSignal
from ragtune.signals.table import TableSignal
from ragtune.testing import small_corpus

CORPUS = small_corpus()


def over_texts(kind: Callable[..., Any]) -> Callable[..., Any]:
    return lambda **options: kind(CORPUS, TfidfEmbedder, **options)


def hybrid(**options: Any) -> HybridRetriever:
    return HybridRetriever(CORPUS, **({"retrievers": {"bm25": BM25Retriever}, "fusion": RRFFusion()} | options))


BAD = [
    (UpperConfidenceAcquisition, {"kappa": math.nan}),
    (ThompsonAcquisition, {"seed": -1}),
    (HashingEmbedder, {"dims": True}),
    (lambda dims: OpenAICompatibleEmbedder(LLMClient(model="tiny", mode="live"), dims), {"dims": 0}),
    (lambda **options: SentenceTransformerEmbedder("any", **options), {"batch_size": 0}),
    (BlitzRankEstimator, {"window": 1}),
    (SlidingEstimator, {"step": 20}),
    (TDPartEstimator, {"top_k": 20}),
    (JointRankEstimator, {"replicas": 0}),
    (TourRankEstimator, {"tournaments": 0}),
    (AcuRankEstimator, {"tolerance": 0.6}),
    (REALMEstimator, {"temperature": 0.0}),
    (TSSetRankEstimator, {"explore": 1.5}),
    (over_texts(PlackettLuceEstimator), {"temperature": 0.0}),
    (over_texts(GAREstimator), {"k": 1.5}),
    (over_texts(OREEstimator), {"ridge": math.nan}),
    (over_texts(QuamEstimator), {"top_s": 2.5}),
    (over_texts(RGSEstimator), {"length": 0}),
    (over_texts(BAGELEstimator), {"warm": 1.5}),
    (over_texts(UncertaintyEstimator), {"trust": 2}),
    (RRFFusion, {"k": -1.0}),
    (lambda **options: RM3Reformulator(CORPUS, **options), {"max_df_ratio": 0.0}),
    (lambda **options: BM25Retriever(CORPUS, **options), {"method": "bm25l"}),
    (lambda **options: RankBM25Retriever(CORPUS, **options), {"b": 2.0}),
    (hybrid, {"depth_each": 0}),
    (GreedyScheduler, {"batch_size": 0}),
    (lambda **options: GateScheduler(OneShotScheduler(), **options), {"agreement": 1.5}),
    (OneShotScheduler, {"top_n": -1}),
    (SettledScheduler, {"threshold": 0.6}),
    (lambda **options: CascadeScheduler({}, **options), {"escalate_above": 1.5}),
    (SlidingWindowScheduler, {"step": 21}),
    (lambda **options: MetadataSignal("year", **options), {"higher_is_better": "maybe"}),
    (lambda **options: TableSignal("no matter", **options), {"by": "query"}),
]


@pytest.mark.parametrize(("make", "options"), BAD)
def test_a_bad_option_is_refused_by_name_and_value(make: Callable[..., Any], options: dict[str, Any]) -> None:
    [(name, value)] = options.items()
    with pytest.raises(ConfigError) as refused:
        make(**options)
    assert f"{name}={value!r}" in str(refused.value)


@pytest.mark.parametrize("k", [0, 3])
def test_a_graph_that_cannot_be_used_is_refused(make_graph: Callable[..., str], tmp_path: Path, k: int) -> None:
    folder = make_graph(tmp_path / "graph", CORPUS, {}, 2)
    with pytest.raises(ConfigError, match=f"k={k}"):
        CorpusGraphExpander(CORPUS, folder, NoOpReranker(), k=k)
    with pytest.raises(ConfigError, match=r"expander\.top=0"):
        CorpusGraphExpander(CORPUS, folder, NoOpReranker(), k=2, top=0)
    with pytest.raises(ConfigError, match="another corpus"):
        GAREstimator(Corpus([CORPUS["tea-1"]]), TfidfEmbedder, k=2, graph=folder)
    with pytest.raises(ConfigError, match="no corpus graph"):
        GAREstimator(CORPUS, TfidfEmbedder, graph=str(tmp_path))
