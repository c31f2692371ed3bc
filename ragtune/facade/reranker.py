"""Budgeted reranking in three lines."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from numbers import Integral
from os import PathLike
from typing import Any, Literal, NamedTuple

from ragtune.assemblers.greedy import GreedyAssembler
from ragtune.core.arguments import check_count
from ragtune.core.batches.failures import FailurePolicy
from ragtune.core.controller import RAGtuneController
from ragtune.core.errors import ConfigError, InputError
from ragtune.core.hits import Hits
from ragtune.core.interfaces import BaseEmbedder
from ragtune.core.output import ControllerOutput
from ragtune.core.plain import quoted
from ragtune.core.policy.batching import compares_apart
from ragtune.core.policy.defaults import TRUST
from ragtune.core.pool.items import PoolItem, ids_of, some_of
from ragtune.core.pool.roster import Roster
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import ORIGINAL, RAGtuneContext, Request
from ragtune.core.rounds import RetrievalDepths
from ragtune.core.types import FREE, UNANSWERED, CostObject, ScoredDocument, price_by_count
from ragtune.core.units import ENERGY, FLOPS, MONEY, SEARCH_UNITS
from ragtune.data.corpus import Document
from ragtune.embedders.passages import Passages
from ragtune.facade.candidates import Scores, budget_of, candidates, listed
from ragtune.facade.doubts import Doubts
from ragtune.facade.models import reranker_for
from ragtune.facade.policies import Policy, policy_named
from ragtune.facade.ranking import Ranking, evidence_of, notes_of, put_back, ranked_documents
from ragtune.reformulators.identity import IdentityReformulator
from ragtune.rerankers.calibration import Calibration
from ragtune.retrievers.given import GivenRetriever

Given = str | Mapping[str, Any] | Document
"""A document as a caller has it: a text, a dict with ``text`` and perhaps ``title``, or a Document."""


class Job(NamedTuple):
    """One query of :meth:`BudgetedReranker.rank_many`; see :meth:`BudgetedReranker.rank` for the fields.

    Examples:
        >>> from ragtune import BudgetedReranker
        >>> from ragtune.facade.reranker import Job
        >>> reranker = BudgetedReranker(lambda query, texts: [float(query in text) for text in texts], docs=1)
        >>> jobs = [Job("tea", ["bread", "tea"], scores=[0.1, 0.9]), Job("salt", ["salt"])]
        >>> [ranking[0].index for ranking in reranker.rank_many(jobs)]
        [1, 0]
    """

    query: str
    documents: Sequence[Given]
    scores: Scores | Mapping[str, Scores] | None = None
    vectors: Sequence[Any] | None = None
    signals: Mapping[str, Scores] | None = None
    query_vector: Any = None


class _InHistory(GreedyAssembler):
    """Assembles nothing: the ranking is read from the history."""

    def assemble(self, items: Sequence[PoolItem], context: RAGtuneContext) -> list[ScoredDocument]:
        return []


_PRICES = {
    MONEY: "usd_per_1k_tokens, usd_per_search_unit or usd_per_doc",
    FLOPS: "architecture",
    SEARCH_UNITS: "a server that bills them",
    ENERGY: "a reranker that reports joules",
}


class BudgetedReranker:
    """Reranks the candidates that are worth it, within a hard budget, and ranks all of them.

    Thread-safe: one object serves all requests of a program, and learns from them how long the reranker takes, whether
    it is dead, and whether sources seem to know better (``doubts.evidence``).

    Args:
        model: a cross-encoder's folder or hub name, a loaded ``sentence_transformers.CrossEncoder``, the address of a
            rerank server, a function ``(query, texts) -> scores``, or a component of :mod:`ragtune.rerankers`.
        docs: documents that may be reranked a query.
        calls: calls of the reranker a query.
        usd: dollars a query.
        ms: milliseconds a query; no call begins that is expected to pass them.
        tokens: tokens that the reranker may read a query.
        flops: floating-point operations a query, of a model whose ``architecture`` is given.
        search_units: search units a query, of a server that bills them.
        joules: energy a query, of a reranker that reports it.
        policy: ``uncertainty`` (spends the budget where it helps most), ``settled`` or ``early_stop`` (stop as well
            once the top 10 is unlikely to change), ``fixed_depth`` (the first stage's best), for a reranker that
            compares ``plackett_luce`` or another of :func:`~ragtune.facade.policies.policy_named`, or a
            :class:`~ragtune.facade.policies.Policy`.
        batch_size: documents a call, for a policy by name; None for 5, or the window of a policy that compares. Small
            ones learn faster, large ones make fewer calls.
        trust: in [0, 1], for a policy by name: where scores cannot tell whose word counts, 0 is the sources' order
            (first stages, signals, likeness to the first stage's top), 1 the reranker's. ``auto`` follows what the
            requests show: nothing of it is left of a reranker whose scores have nothing to do with the first stages.
        embedder: makes the vectors of candidates that bring none along; None compares their terms.
        failures: how long a failing reranker is tried.
        passages: tokens of a passage, or a :class:`~ragtune.embedders.passages.Passages`: longer documents are read in
            passages, which count as documents in budgets and costs; None reads each document whole.
        doubts: hears of every ranking whether sources agree better with each other than the reranker does, where there
            are several and the policy compares them; None has a warning of Python, once a source, for more than chance.
        calibration: makes each ``score`` a probability of relevance, and changes no order: a
            :class:`~ragtune.rerankers.calibration.Calibration`, or a file of ``ragtune calibrate``.
        options: further arguments of the reranker, e.g. ``scale="logit"`` of a function or ``device`` of a model;
            ``cache_dir="auto"`` (or a folder) keeps the scores of a model or a server on disk, which is off otherwise.

    Raises:
        ConfigError: if no budget is given, an argument is out of range, or dollars, FLOPs, search units or joules are
            limited and nothing has a price in them.
        MissingExtraError: if what the reranker needs is not installed.

    Examples:
        >>> from ragtune import BudgetedReranker
        >>> def shared_words(query, texts):
        ...     return [len(set(query.split()) & set(text.split())) / len(query.split()) for text in texts]
        >>> reranker = BudgetedReranker(shared_words, docs=2, batch_size=1)
        >>> ranking = reranker.rank("green tea", ["tea is a plant", "bread is baked", "tea is sold green"])
        >>> [document.index for document in ranking], ranking.cost.docs
        ([0, 2, 1], 2)
    """

    def __init__(
        self,
        model: Any,
        *,
        docs: int | None = None,
        calls: int | None = None,
        usd: float | None = None,
        ms: float | None = None,
        tokens: int | None = None,
        flops: float | None = None,
        search_units: int | None = None,
        joules: float | None = None,
        policy: str | Policy = "uncertainty",
        batch_size: int | None = None,
        trust: float | Literal["auto"] = TRUST,
        embedder: BaseEmbedder | None = None,
        failures: FailurePolicy | None = None,
        passages: int | Passages | None = None,
        doubts: Doubts | None = None,
        calibration: Calibration | str | PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        self._reranker = reranker_for(model, options, beside=inspect.signature(BudgetedReranker).parameters)
        if calibration is not None and not isinstance(calibration, Calibration):
            calibration = Calibration.load(calibration)
        self._calibration = calibration
        self._require_scores("calibration", calibration)
        budget = budget_of(
            {"docs": docs, "calls": calls, "usd": usd, "ms": ms, "tokens": tokens}
            | {"flops": flops, "search_units": search_units, "joules": joules}
        )
        if not isinstance(doubts, Doubts | None):
            raise ConfigError(f"doubts={quoted(doubts)}: allowed is a Doubts, or None")
        self.doubts = Doubts() if doubts is None else doubts
        parts = (
            policy
            if isinstance(policy, Policy)
            else policy_named(policy, batch_size, embedder, self.doubts.dial(trust))
        )
        self._scheduler = parts.scheduler
        self._require_price(budget)
        self._controller = RAGtuneController(
            retriever=GivenRetriever(),
            reformulator=IdentityReformulator(),
            estimator=parts.estimator,
            scheduler=parts.scheduler,
            reranker=self._reranker,
            assembler=_InHistory(parts.ordering),
            budget=budget,
            plan=RetrievalDepths(original_query_depth=sys.maxsize, num_reformulations=0),
            failures=failures,
            passages=Passages(passages) if isinstance(passages, Integral) else passages,
        )

    def warm_up(self) -> None:
        """Load the model now; otherwise the first query does, off its clock.

        Raises:
            InputError: if the model cannot be loaded.
        """
        self._controller.prepare()

    @property
    def closed(self) -> str | None:
        """Why the reranker is not asked at present, where it failed too often (rule F3); None where it is."""
        return next(iter(self._controller.closed.values()), None)

    def rank(
        self,
        query: str,
        documents: Sequence[Given],
        scores: Scores | Mapping[str, Scores] | None = None,
        *,
        top_k: int | None = None,
        vectors: Sequence[Any] | None = None,
        signals: Mapping[str, Scores] | None = None,
        query_vector: Any = None,
        budget: Mapping[str, float | None] | None = None,
        min_score: float | None = None,
    ) -> Ranking:
        """Rank candidates.

        Args:
            query: the user's text.
            documents: the candidates: texts, dicts with ``text`` and perhaps ``title``, or Documents; best first unless
                ``scores`` are given. A list, an array or a pandas Series, whose labels do not count.
            scores: the first stage's score of each document, higher is better, or several first stages' by name; None
                for a document that a stage did not find.
            top_k: documents of the ranking, >= 1; None for all.
            vectors: one embedding a document, where the caller's index has them: better than terms.
            signals: whatever else is known of the documents for free, by name: one number a document, higher is better
                (recency, clicks; negate what is better low), None where it is not known.
            query_vector: the query's embedding by the model of ``vectors``; its cosines become a signal.
            budget: limits of this query instead of the object's, e.g. ``{"docs": 10, "ms": 200}``.
            min_score: in [0, 1]; documents with a smaller score are left out, and mostly those without a score of the
                reranker, see :meth:`Ranking.at_least <ragtune.facade.ranking.Ranking.at_least>`. Then an empty ranking
                has ``nothing_relevant``.

        Raises:
            InputError: on unusable input, naming it.
        """
        self._require_scores("min_score", min_score)
        job = Job(query, listed(documents), scores, vectors, signals, query_vector)
        request = self._request(job, budget, top_k)
        output = self._controller.run(request.query, request.budget, candidates=request.candidates)
        return self._final(job, request, output, top_k, min_score)

    async def arank(self, *arguments: Any, **keywords: Any) -> Ranking:
        """:meth:`rank` in a thread of its own, for asyncio."""
        return await asyncio.to_thread(self.rank, *arguments, **keywords)

    def rank_many(
        self,
        jobs: Sequence[Job | tuple[Any, ...]],
        *,
        top_k: int | None = None,
        budget: Mapping[str, float | None] | None = None,
        width: int = 32,
        min_score: float | None = None,
    ) -> list[Ranking]:
        """Rank the candidates of many queries, ``width`` of them in lockstep: one call of the model for all of them.

        Each of the ``jobs`` is a :class:`Job` or a tuple of its fields. Further arguments, the rankings and the errors
        are those of :meth:`rank`, unless a limit on time cuts a ranking short.
        """
        self._require_scores("min_score", min_score)
        read = [_job(i, job) for i, job in enumerate(jobs)]
        requests = [self._request(job, budget, top_k) for job in read]
        outputs = self._controller.run_many(requests, width)
        return [
            self._final(job, request, output, top_k, min_score)
            for job, request, output in zip(read, requests, outputs, strict=True)
        ]

    def _request(self, job: Job, budget: Mapping[str, float | None] | None, top_k: int | None) -> Request:
        if top_k is not None:
            check_count("top_k", top_k, low=1)
        limits = None if budget is None else self._require_price(budget_of(budget))
        found = candidates(*job[1:])
        return Request(job.query, budget=limits, candidates=found)

    def _require_scores(self, name: str, value: Any) -> None:
        if value is not None and self._reranker.facts.compares:
            raise ConfigError(f"{name}: allowed with a reranker that gives scores; this one compares documents")

    def _final(
        self, job: Job, request: Request, output: ControllerOutput, top_k: int | None, min_score: float | None
    ) -> Ranking:
        self.doubts.hear(output.query_id, *evidence_of(output))
        ranked = ranked_documents(job.documents, output, self._calibration)
        unread = {str(document.index) for document in ranked if not document.reranked}
        failed = {doc_id: why for doc_id, why in put_back(output).items() if doc_id in unread} | output.dropped
        found = Ranking(
            ranked,
            output.history[-1].cost,
            self._price(job.query, request.candidates, unread)
            if output.reading is None
            else self._price_of(job.query, output.reading.unread),
            output.stop,
            {int(doc_id): why for doc_id, why in failed.items()},
            output.batches,
            output.batches.sent - output.batches.failed > 1 and compares_apart(self._reranker, self._scheduler),
            sum((CostObject(**event.details["cost"]) for event in output.trace.find(UNANSWERED)), FREE),
            notes_of(output),
        ).at_least(min_score)
        return found if top_k is None else replace(found, documents=found[:top_k])

    def _require_price(self, budget: CostBudget) -> CostBudget:
        """The budget, if its limits can bind; ConfigError where the reranker has no price in one of them."""
        for unit in (MONEY, FLOPS, SEARCH_UNITS, ENERGY):
            limit = getattr(budget, unit.limit)
            # A price of nothing is one that no limit in dollars can bind on either.
            is_known = unit is not MONEY and unit.name not in self._reranker.facts.unpriced
            if limit is None or is_known or getattr(self._cost_of_two_texts, unit.name):
                continue
            raise ConfigError(
                f"{unit.short}={limit:g}: the reranker has no price, so that no limit in {unit.noun} would ever "
                f"bind: give it one ({_PRICES[unit]}), or limit docs, calls or tokens"
            )
        return budget

    @cached_property
    def _cost_of_two_texts(self) -> CostObject:
        """What the smallest comparison costs."""
        return self._price("a query", candidates(["a text of some words"] * 2, None, None), "01")

    def _price(self, query: str, found: Sequence[ScoredDocument], doc_ids: Collection[str]) -> CostObject:
        """What some of the candidates are expected to cost in one call."""
        if not doc_ids:
            return FREE
        roster = Roster.of(found, ORIGINAL) if isinstance(found, Hits) else Roster.of_items([]).joining(found)
        places = [i for i, doc_id in enumerate(roster.doc_ids) if doc_id in doc_ids]
        return self._price_of(query, some_of(roster.items, places))

    def _price_of(self, query: str, items: Sequence[PoolItem]) -> CostObject:
        if not len(items):
            return FREE
        context = RAGtuneContext(query=query, query_id="", tracker=CostBudget.unlimited().create_tracker())
        try:
            return self._reranker.expected_cost(items, context)
        except Exception:  # the ranking is there: a price that cannot be told must not cost it
            return price_by_count(ids_of(items), "")


def _job(i: int, job: Any) -> Job:
    if isinstance(job, tuple) and 2 <= len(job) <= len(Job._fields):
        query, documents, *further = job
        return Job(query, listed(documents), *further)
    raise InputError(f"job {i} is {quoted(job)}: allowed is a Job, or a tuple of {', '.join(Job._fields)}")
