"""Builds a session (dataset and controller) from a configuration, with the trust that a first pass finds."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from pydantic import BaseModel, ValidationError

from experiments.config.options import RunConfig, leaf, preset_with
from experiments.datasets.dataset import Dataset
from experiments.evaluate.measures import Measures
from experiments.evaluate.record import amounts_of
from experiments.replay.component import component, readable
from ragtune.core.arguments import did_you_mean
from ragtune.core.arrays import FloatArray
from ragtune.core.batches.failures import FailurePolicy
from ragtune.core.controller import RAGtuneController
from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseReranker, BaseRetriever, BaseScheduler
from ragtune.core.plain import quoted
from ragtune.core.policy.batching import compares_apart, objection, propose
from ragtune.core.policy.defaults import AUTO
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.clock import Clock, MonotonicClock, VirtualClock
from ragtune.core.rounds import RetrievalDepths
from ragtune.core.types import BatchProposal, RemainingBudgetView, StopRecord
from ragtune.embedders.candidates import CandidateVectors
from ragtune.estimators.posterior.correlation import CORRELATION, FULL_TRUST, SourceCorrelation
from ragtune.retrievers.signalled import SignalledRetriever
from ragtune.schedulers.cascade import CascadeScheduler

Model = TypeVar("Model", bound=BaseModel)

NO_PARTS = ("budget", "measures", "bootstrap")
"""Options that no other part of a session is made of, so that they make no difference to a baseline either."""


@dataclass(frozen=True)
class Session:
    """What the replay of a query needs: rerankers by strategy name, the controller's other parts by group."""

    dataset: Dataset
    controller: RAGtuneController
    rerankers: Mapping[str, BaseReranker]
    parts: Mapping[str, Any]
    first_pass: FirstPass | None = None

    @property
    def compares_apart(self) -> bool:
        """See :func:`ragtune.core.policy.batching.compares_apart`, of the first reranker."""
        return compares_apart(next(iter(self.rerankers.values())), self.parts["scheduler"])


def build_session(config: Mapping[str, Any]) -> Session:
    """Build the session of a resolved configuration, see :func:`experiments.config.compose.resolve`."""
    return _limited(config, _unlimited(config))


def _limited(config: Mapping[str, Any], unlimited: Session) -> Session:
    parts = {**unlimited.parts, "budget": component(config, "budget")}
    return replace(unlimited, controller=controller_of(config, parts, unlimited.rerankers), parts=parts)


def session_for(config: Mapping[str, Any]) -> Session:
    """The session of a configuration. The latest two stay, and jobs that differ by their budget share their parts."""
    return _session(config if isinstance(config, RunConfig) else RunConfig(config))


@lru_cache(maxsize=2)
def _session(config: RunConfig) -> Session:
    unlimited = _shared(config.without(*NO_PARTS))
    scheduler = unlimited.parts["scheduler"]
    if isinstance(scheduler, CascadeScheduler) and not scheduler.limits:  # here, since golden decisions pin one without
        raise ConfigError(
            "scheduler=cascade: scheduler.limits names no second reranker, so that it would be scheduler=greedy; "
            "register one, e.g. scheduler=cascade +reranker@rerankers.strong=replay +scheduler.limits.strong=5"
        )
    return _limited(config, unlimited)


@lru_cache(maxsize=1)
def _shared(config: RunConfig) -> Session:
    return _unlimited(config)


def _unlimited(config: Mapping[str, Any]) -> Session:
    """The session of a configuration without its budget, with the trust of a first pass where it asks for one."""
    chosen = config["estimator"]
    if chosen.get("trust") != AUTO:
        return _as_said(config)
    trusting = RunConfig({**config, "estimator": {**chosen, "trust": FULL_TRUST}})
    found = _first_pass(trusting.without(*NO_PARTS))
    trusting = trusting.replaced(estimator={**chosen, "trust": found.correlation.trust})
    return replace(_as_said(trusting), first_pass=found)


@lru_cache(maxsize=4)  # jobs of a sweep that differ by their budget, and others between them
def _first_pass(config: RunConfig) -> FirstPass:
    session = _as_said(config)
    made = partial(controller_of, config, rerankers=session.rerankers)
    return first_pass(session.parts, made, session.dataset.queries, config["seed"])


def _as_said(config: Mapping[str, Any]) -> Session:
    dataset = load_dataset(config)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "reranker.scale=")  # the dataset's warnings say it
        rerankers = _rerankers(config, dataset)
    resources = {
        "corpus": dataset.corpus,
        "qrels": dataset.qrels,
        "dataset_name": dataset.name,
        "reranker": next(iter(rerankers.values())),
    }
    retriever = _retriever(config, resources)
    resources["echoes"] = retriever.echoes if isinstance(retriever, SignalledRetriever) else ()
    parts = {"retriever": retriever} | {
        group: component(config, group, resources)
        for group in ("reformulator", "expander", "estimator", "scheduler", "assembler")
    }
    if config.get("passages"):
        parts["passages"] = _passages(config, rerankers)
    require_fitting(config, parts)
    parts["budget"] = CostBudget.unlimited()
    joined = dataset.joining([retriever, *rerankers.values()])
    return Session(joined, controller_of(config, parts, rerankers), rerankers, parts)


def require_fitting(config: Mapping[str, Any], parts: Mapping[str, Any]) -> None:
    """Refuse an estimator that cannot use what the scheduler pays for, and name the preset that works."""
    if not (why := objection(parts["estimator"], parts["scheduler"])):
        return
    names = {group: leaf(config, group) for group in ("estimator", "scheduler")}
    preset = preset_with(names["estimator"])
    working = f", or choose experiment={preset}" if preset else ""
    raise ConfigError(f"{' '.join(f'{group}={name}' for group, name in names.items())}: {why}{working}")


def controller_of(
    config: Mapping[str, Any], parts: Mapping[str, Any], rerankers: Mapping[str, BaseReranker]
) -> RAGtuneController:
    """The controller of a configuration, made of the given parts."""
    failures = {key: value for key, value in config["failures"].items() if key != "max_share"}
    return RAGtuneController(
        **parts,
        reranker=rerankers,
        plan=_plan(config),
        clock_factory=_clock_factory(config["clock"], rerankers),
        seed=config["seed"],
        failures=validated(FailurePolicy, failures, "failures"),
    )


def load_dataset(config: Mapping[str, Any]) -> Dataset:
    """The configured collection, which is read once per process."""
    return _load_dataset(RunConfig({"dataset": config["dataset"]}))


@lru_cache(maxsize=4)
def _load_dataset(config: RunConfig) -> Dataset:
    dataset: Dataset = component(config, "dataset").load()
    if "sample" in config["dataset"]:
        dataset = dataset.sampled(**config["dataset"]["sample"])
    gc.freeze()  # the collection stays; a garbage collector that walks it again and again takes 8% of a sweep
    return dataset


def load_measures(config: Mapping[str, Any]) -> Measures:
    """The configured measures over the judgments of the configured collection, prepared once per process."""
    return _load_measures(RunConfig({name: config[name] for name in ("dataset", "measures")}))


@lru_cache(maxsize=4)
def _load_measures(config: RunConfig) -> Measures:
    return Measures(config["measures"], load_dataset(config).qrels)


def _rerankers(config: Mapping[str, Any], dataset: Dataset) -> dict[str, BaseReranker]:
    resources = {"corpus": dataset.corpus}
    named = {"default": config["reranker"], **config["rerankers"]}
    for name, node in named.items():
        if "scores" in node and node["scores"] is None:
            option = "reranker.scores" if name == "default" else f"rerankers.{name}.scores"
            raise ConfigError(
                f"{option} is missing: give a score table (TREC run, Parquet, CSV or JSON lines), score live with "
                "reranker=cross_encoder reranker.model=MODEL, or make a table once by 'ragtune score --out FILE.parquet"
                f" reranker=cross_encoder reranker.model=MODEL' with this run's options; then {option}=FILE.parquet"
            )
    return {name: component({"reranker": node}, "reranker", resources) for name, node in named.items()}


def _retriever(config: Mapping[str, Any], resources: Mapping[str, Any]) -> BaseRetriever:
    retriever: BaseRetriever = component(config, "retriever", resources)
    if not config["signal"]:
        return retriever
    for name, node in config["signal"].items():
        if not isinstance(node, Mapping):
            raise ConfigError(
                f"signal.{name}={quoted(node)}: allowed are options of a signal with a name; a file of your own, "
                "conf/signal/NAME.yaml, begins with the line '# @package signal.NAME'"
            )
    signals = {name: component({"signal": node}, "signal", resources) for name, node in config["signal"].items()}
    return SignalledRetriever(retriever, signals, component(config, "fusion"))


def _passages(config: Mapping[str, Any], rerankers: Mapping[str, BaseReranker]) -> Any:
    """What splits long documents: passages are in no collection and no score table."""
    if any(each.facts.is_recorded for each in rerankers.values()):
        raise ConfigError("passages: allowed with a live reranker (reranker=cross_encoder reranker.model=MODEL)")
    vectors = config["estimator"].get("vectors") or {}
    if vectors.get("_target_") not in (None, f"{CandidateVectors.__module__}.{CandidateVectors.__name__}"):
        raise ConfigError("passages: allowed with vectors of the texts: vectors@estimator.vectors=candidates")
    return component(config, "passages")


def _plan(config: Mapping[str, Any]) -> RetrievalDepths:
    """The rounds' depths; a rewrite's is cut to the query's own, which rule R2 lets it not exceed."""
    plan = dict.fromkeys(RetrievalDepths.model_fields) | config["retrieval"]
    depth, each = plan["original_query_depth"], plan["depth_per_reformulation"]
    if isinstance(depth, int) and isinstance(each, int) and depth >= 1:
        plan["depth_per_reformulation"] = min(each, depth)
    return validated(RetrievalDepths, plan, "retrieval")


def validated(kind: type[Model], values: Any, group: str) -> Model:
    """The options of a group as a model, or what is wrong with them."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise readable(error, group, {}) from None


def _clock_factory(kind: str, rerankers: Mapping[str, BaseReranker]) -> type[Clock]:
    simulated = all(reranker.facts.simulates_time for reranker in rerankers.values())
    auto = VirtualClock if simulated else MonotonicClock
    clocks: dict[str, type[Clock]] = {"auto": auto, "virtual": VirtualClock, "monotonic": MonotonicClock}
    if kind not in clocks:
        raise ConfigError(f"clock={kind!r}: allowed are {', '.join(clocks)}{did_you_mean(str(kind), list(clocks))}")
    return clocks[kind]


QUERIES, HEAD, TAIL = 100, 10, 10
"""Queries of the sample; documents scored of each: the first stage's best, and others spread evenly over the rest."""


class FirstPass(NamedTuple):
    """What the first pass has found, and its costs in each of :data:`experiments.evaluate.record.UNITS`."""

    correlation: SourceCorrelation
    charged: FloatArray
    actual: FloatArray


class _Spread(BaseScheduler):
    """One batch of the first stage's best and of some that are spread over its list, so that scores can vary."""

    def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> BatchProposal | StopRecord:
        if pool.batches:
            return StopRecord(reason="one_shot_done", source="scheduler", details={})
        ranked = pool.top_candidates(len(pool))
        spread = np.unique(np.linspace(HEAD, max(len(ranked) - 1, HEAD), TAIL).astype(int)).tolist()
        return propose([*ranked[:HEAD], *(ranked[i] for i in spread if i < len(ranked))], budget)


def first_pass(
    parts: Mapping[str, Any],
    controller_of: Callable[[Mapping[str, Any]], RAGtuneController],
    queries: Mapping[str, str],
    seed: int,
) -> FirstPass:
    """Score a seeded sample of the queries, texts by id, and correlate the scores with the first stage.

    The parts are those of the policy; scheduler, budget and expander are replaced. ``controller_of`` makes a controller
    of them with the run's own depths, seed and failure policy.
    """
    chosen = {"scheduler": _Spread(), "budget": CostBudget.unlimited(), "expander": None}
    controller = controller_of({**parts, **chosen})
    query_ids = list(queries)
    drawn = np.random.default_rng(seed).permutation(len(query_ids))[:QUERIES]
    found, charged, actual = [], [], []
    for query_id in [query_ids[i] for i in sorted(drawn.tolist())]:
        output = controller.run(queries[query_id], query_id=query_id)
        told = (each.details for each in output.trace.events if CORRELATION in each.details)
        found += [details[CORRELATION] for details in told if details["scored"] > 2][-1:]
        charged.append(output.history[-1].amounts)
        actual.append(amounts_of(output.actual_cost))
    return FirstPass(SourceCorrelation.of(found), np.sum(charged, axis=0), np.sum(actual, axis=0))
