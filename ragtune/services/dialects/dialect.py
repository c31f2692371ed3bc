"""What a dialect of the rerank API is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from ragtune.canonical.permit import current
from ragtune.services.chain import FIRST_STAGE
from ragtune.services.dialects.answer import Answer
from ragtune.services.errors import AdapterError, Problem
from ragtune.services.operations import Operation
from ragtune.services.rerank_payloads import RerankQuery

ANSWERED_BY, HOPS = "X-RAGtune-Answered-By", "X-RAGtune-Hops"
"""Headers of an answer: the model that scored, and what each model did."""

_SHOWN = " =,:/()+"  # in headers, as they are


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
    operation: Operation[Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        summary = f"Rank documents within a budget, in the dialect of {self.server}."
        path = (self.paths or self.shared)[0]
        operation = Operation(self.name, summary, self.request, self.response, self._call, path)
        object.__setattr__(self, "operation", operation)

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
