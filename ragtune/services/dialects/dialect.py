"""What a dialect of the rerank API is, and what it writes an answer from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any
from urllib.parse import quote

import numpy as np

from ragtune.canonical.permit import current
from ragtune.core.policy.scaling import logits
from ragtune.core.types import CostObject
from ragtune.core.units import UNITS
from ragtune.services.chain import FIRST_STAGE, ServedRanking
from ragtune.services.errors import AdapterError, Problem
from ragtune.services.operations import Operation
from ragtune.services.payloads import RerankQuery

ANSWERED_BY, HOPS = "X-RAGtune-Answered-By", "X-RAGtune-Hops"
"""Headers of an answer: the model that scored, and what each model did."""

_SHOWN = " =,:/()+"  # in headers, as they are
_SURE = 1e-9  # a score nearer to 0 or 1 has no useful logit


@dataclass(frozen=True)
class Answer:
    """A request, its ranking, and the model's name."""

    request: RerankQuery
    ranking: ServedRanking
    model: str

    def rows(
        self,
        score: str = "relevance_score",
        field: str | None = None,
        write: Callable[[Any], Any] = lambda given: given,
    ) -> list[dict[str, Any]]:
        """The results, best first, at most ``top_n``; ``field`` has the document, as ``write`` writes it."""
        rows = []
        for one in self.ranking[: self.request.top_n or None]:
            value = float(logits(np.array(one.score), _SURE)) if self.request.wants_logits else one.score
            row = {"index": one.index, score: value, "estimated": one.estimated}
            rows.append(row if field is None else row | {field: write(self.request.documents[one.index])})
        return rows

    def common(self) -> dict[str, Any]:
        """What every answer has beside its results, but for TEI's list."""
        tokens = self.ranking.cost.tokens
        usage = {"total_tokens": tokens, "prompt_tokens": tokens}
        return {"model": self.model, "usage": usage, "ragtune": self.account()}

    def warnings(self) -> list[str]:
        unknown = islice(self.request.model_extra or {}, 20)
        return [*(f"{name[:100]!r} is unknown here and ignored" for name in unknown), *self.ranking.warnings]

    def account(self) -> dict[str, Any]:
        """RAGtune's own: what the ranking cost, and what reranking the other documents was expected to cost on top.

        ``nothing_relevant`` is there if no scored document reaches the ``min_score``; ``possible`` is what an upstream
        may bill beyond ``spent``; ``passages`` has start and end, in characters, by the index of the document.
        """
        stop = (
            {} if self.ranking.stop is None else self.ranking.stop.model_dump(include={"reason", "source", "message"})
        )
        found: dict[str, Any] = {"nothing_relevant": True} if self.ranking.nothing_relevant else {}
        found |= {
            "spent": _spending(self.ranking.cost),
            "saved": _spending(self.ranking.saved),
            "stop": stop,
            "reranked": [one.index for one in self.ranking if one.reranked],
            "failed": sorted(self.ranking.failures),
            "answered_by": self.ranking.answered_by,
            "hops": [hop._asdict() for hop in self.ranking.hops],
        }
        if self.ranking.possible.calls:
            found["possible"] = _spending(self.ranking.possible)
        if passages := {str(one.index): one.passage for one in self.ranking if one.passage is not None}:
            found["passages"] = passages
        if warnings := self.warnings():
            found["warnings"] = warnings
        return found


@dataclass(frozen=True)
class Dialect:
    """How the clients of one rerank API ask, and what they read.

    Attributes:
        name: of its operation.
        server: whose API it is; its paths are also below ``/server``, where no other dialect is heard.
        request: fields by the names that clients send; unknown ones are ignored or refused as that server does.
        write: makes the answer.
        paths: those where a request is of this dialect unless its body says otherwise.
        shared: paths of other dialects where a request is of this one if its body has one of ``marks``.
        marks: names of fields that no other dialect at these paths has.
        error: what its clients read of an error, beside the problem details.
        invalid: its status for a request that is not valid.
        response: type of the answer.
    """

    name: str
    server: str
    request: type[RerankQuery]
    write: Callable[[Answer], Any]
    paths: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    marks: frozenset[str] = frozenset()
    error: Callable[[Problem], dict[str, Any]] = lambda problem: {}
    invalid: int = 422
    response: Any = dict[str, Any]

    @cached_property
    def operation(self) -> Operation[Any]:
        summary = f"Rank documents within a budget, in the dialect of {self.server}."
        path = (self.paths or self.shared)[0]
        return Operation(self.name, summary, self.request, self.response, self._call, path)

    def _call(self, server: Any, request: RerankQuery) -> Any:
        if server is None:
            raise AdapterError("no-model", "Start it with --model to rerank documents here.")
        ranking = server.rank(request)
        hops = ", ".join(f"{hop.model}={hop.outcome}" for hop in ranking.hops)
        current().headers = {ANSWERED_BY: quote(ranking.answered_by, _SHOWN), HOPS: quote(hops, _SHOWN)}
        model = server.model if ranking.answered_by == FIRST_STAGE else ranking.answered_by
        return self.write(Answer(request, ranking, model))

    def problem(self, problem: Problem) -> Problem:
        """The problem with what this dialect's clients read, and its status."""
        if problem.status == 422:
            problem = problem.model_copy(update={"status": self.invalid})
        return problem.model_copy(update={"message": problem.detail, **self.error(problem)})


def _spending(cost: CostObject) -> dict[str, int | float]:
    """The cost by unit; those without a price are left out."""
    return {unit.short: amount for unit in UNITS if (amount := getattr(cost, unit.name)) or unit.is_always_told}
