"""The budget that a server learns: all at first, then less; all again or nothing where the scores change."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import rerank_server
from patience import HANG_S, wait_until
from serve_process import serving, serving_here

from ragtune.core.errors import ConfigError
from ragtune.facade.ranking import RankedDocument, Ranking
from ragtune.facade.reranker import BudgetedReranker, Job
from ragtune.rerankers.function import FunctionReranker
from ragtune.services.learn import Learner
from ragtune.services.payloads import RerankQuery
from ragtune.services.rerank import RerankServer
from ragtune.services.shadow import ShadowOptions

TEXTS = [f"text {place}" for place in range(60)]
JOB = Job("query", TEXTS)


def in_full(scores: Sequence[float]) -> Ranking:
    best = sorted(range(60), key=lambda place: -scores[place])
    free = BudgetedReranker(lambda query, texts: [0.0], docs=1).rank("query", ["a"])
    documents = tuple(RankedDocument(place, scores[place], scores[place], TEXTS[place]) for place in best)
    return Ranking(documents, free.cost, free.saved, free.stop)


GOOD = in_full([1.0 - place / 60 for place in range(60)])


class Orders:
    """The model's own order from a budget of ``enough`` documents on, and the reverse of it below."""

    def __init__(self, enough: int) -> None:
        self.enough = enough

    def __call__(self, job: Job, scores: dict[int, float], budgets: Sequence[int]) -> list[list[int]]:
        best = sorted(scores, key=lambda place: -scores[place])
        return [best if docs >= self.enough else best[::-1] for docs in budgets]


@pytest.fixture
def learned(tmp_path: Path) -> tuple[Learner, Orders, list[str], Path]:
    """A learner after 200 requests for which 30 documents are enough."""
    told: list[str] = []
    orders, file = Orders(30), tmp_path / "learned.json"
    learner = Learner(file, 0.06, orders, told.append)
    for _ in range(200):
        assert learner.limits == {}
        learner.measure(JOB, GOOD)
        learner.hear(JOB, GOOD)
    return learner, orders, told, file


def test_the_smallest_budget_that_is_shown_to_do_is_taken_and_kept_in_the_file(
    learned: tuple[Learner, Orders, list[str], Path],
) -> None:
    learner, orders, told, file = learned
    assert learner.limits == Learner(file, 0.06, orders, told.append).limits == {"docs": 30}
    assert told == []
    model = FunctionReranker(lambda query, texts: [1.0 / int(text.split()[1]) for text in texts])
    with RerankServer(model, "m", shadow=ShadowOptions(1.0, learn=file)) as server:
        documents = [f"text {place + 1}" for place in range(60)]
        assert server.rank(RerankQuery(query="q", documents=documents)).cost.docs == 30
        wait_until(lambda: json.loads(file.read_text())["seen"] == 201)
        assert server.rank(RerankQuery(query="q", documents=documents, budget={"docs": 7})).cost.docs == 7


def test_a_budget_that_loses_more_than_before_is_given_up(learned: tuple[Learner, Orders, list[str], Path]) -> None:
    learner, orders, told, _ = learned
    orders.enough = 60
    counted = 0
    while learner.limits:
        learner.measure(JOB, GOOD)
        counted += 1
    assert counted < 20
    assert "loses more than before" in told[0]


def test_the_gate_closes_where_scores_do_not_agree_with_the_first_stage_and_stays_so(
    learned: tuple[Learner, Orders, list[str], Path],
) -> None:
    learner, orders, told, file = learned
    draws = random.Random(0)
    counted = 0
    while learner.limits != {"docs": 0}:
        learner.hear(JOB, in_full([draws.random() for _ in range(60)]))
        counted += 1
    assert counted <= 300
    assert "do not agree with the first stage" in told[0]
    assert Learner(file, 0.06, orders, told.append).limits == {"docs": 0}
    model = FunctionReranker(lambda query, texts: [0.5] * len(texts))
    with RerankServer(model, "m", shadow=ShadowOptions(0.1, learn=file)) as server:
        found = server.rank(RerankQuery(query="q", documents=TEXTS))
    assert [one.index for one in found] == list(range(60))
    assert found.cost.docs == 0


def test_documents_without_a_first_stage_score_say_nothing_of_the_agreement(tmp_path: Path) -> None:
    learner = Learner(tmp_path / "learned.json", 0.06, Orders(1), print)
    known = [1.0 - place / 30 for place in range(30)]
    for _ in range(300):  # those that the first stage lacks are the model's best
        learner.hear(Job("query", TEXTS, [*known, *[None] * 30]), in_full([*known, *[2.0] * 30]))
    assert learner.limits != {"docs": 0}


def test_what_a_killed_server_has_learned_is_there_again(tmp_path: Path) -> None:
    file = tmp_path / "learned.json"
    model = FunctionReranker(lambda query, texts: [1.0 / (1 + int(text.split()[1])) for text in texts])
    with rerank_server.serving(RerankServer(model, "m")) as upstream:
        options = ["--store", "memory", "--model", f"{upstream}/v2/rerank", "--shadow", "0.5", "--learn", str(file)]
        options += ["--upstream-key-env", "A_KEY"]
        with serving(*options, A_KEY=rerank_server.KEY) as server:
            for number in range(8):
                server.rank(f"query {number}", TEXTS[:20])
            wait_until(lambda: json.loads(file.read_text())["seen"] >= 4)
            server.process.kill()
            server.process.wait(HANG_S)
            before = json.loads(file.read_text())["seen"]
        with serving_here(*options, A_KEY=rerank_server.KEY) as server:
            server.rank("one more", TEXTS[:20])
            wait_until(lambda: json.loads(file.read_text())["seen"] == before + 1)


DAMAGES = [
    {"shown": [1] * 9},
    {"wealth": [0.0]},
    {"seen": "abc"},
    {"closed": "false"},
    {"ragtune serve --learn 1": 0.1},
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_state_or_one_of_another_tolerance_is_refused(
    learned: tuple[Learner, Orders, list[str], Path], damage: dict[str, object]
) -> None:
    _, orders, told, file = learned
    file.write_text(json.dumps(json.loads(file.read_text()) | damage))
    with pytest.raises(ConfigError, match="remove it to learn anew"):
        Learner(file, 0.06, orders, told.append)
