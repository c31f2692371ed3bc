"""Views: each measured by itself, over the judged queries."""

from __future__ import annotations

import pytest

from experiments.evaluate.curves import Bootstrap
from experiments.evaluate.measures import Measures
from experiments.evaluate.record import UNITS, QueryRecord
from experiments.evaluate.views import View, views_of
from experiments.publish.terminal import print_views

QRELS = {"q1": {"a": 1}, "q2": {"b": 1, "c": 1}}
POSITIONS = {"found": 0, "chosen": -1}


def record(query_id: str, found: str, chosen: str) -> QueryRecord:
    """One whose pool is ``found``, a letter a document, and whose last state is ``chosen``."""
    rankings = [[found.index(doc) for doc in state] for state in (found, found, chosen)]
    costs = [[0.0] * len(UNITS)] * 3
    stop = {"reason": "done", "source": "test", "details": {}}
    return QueryRecord(query_id, list(found), rankings, costs, costs[0], stop, {}, {}, 0, 0, "{}")


@pytest.fixture
def views() -> list[View]:
    records = [record("q1", "xa", "a"), record("unjudged", "abc", "c"), record("q2", "bxc", "c")]
    measures = Measures(["RR@10", "R@100"], QRELS)
    return views_of(records, POSITIONS, ["q1", "q2"], measures, Bootstrap(resamples=200, level=0.9, seed=0))


def test_a_view_has_the_rankings_of_every_query_and_the_values_of_the_judged(views: list[View]) -> None:
    found, chosen = views
    assert (found.name, chosen.name) == ("found", "chosen")
    assert found.rankings == {"q1": ["x", "a"], "unjudged": ["a", "b", "c"], "q2": ["b", "x", "c"]}
    assert found.per_query.tolist() == [[0.5, 1.0], [1.0, 1.0]]
    assert chosen.per_query.tolist() == [[1.0, 1.0], [1.0, 0.5]]


def test_its_figures_are_means_with_intervals_and_its_size(views: list[View]) -> None:
    figures = views[1].figures
    assert figures.measures == {"RR@10": 1.0, "R@100": 0.75}
    assert figures.interval["RR@10"] == (1.0, 1.0)
    low, high = figures.interval["R@100"]
    assert 0.5 <= low < 0.75 < high <= 1.0
    assert figures.docs_per_query == 1.0
    assert views[0].figures.docs_per_query == pytest.approx(8 / 3)


def test_a_run_without_named_states_has_no_views() -> None:
    measures = Measures(["RR@10"], QRELS)
    assert views_of([record("q1", "a", "a")], {}, ["q1"], measures, Bootstrap(resamples=10, level=0.9, seed=0)) == []


def test_the_table_has_a_row_a_view_and_says_what_they_cost(
    views: list[View], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_views({view.name: view.figures for view in views}, 12.34)
    out = capsys.readouterr().out
    assert "12.3 documents reranked per query" in out
    rows = {
        line.split()[0]: line.split()[1:] for line in out.splitlines() if line.split()[:1] in (["found"], ["chosen"])
    }
    assert rows == {"found": ["2.7", "0.7500", "1.0000"], "chosen": ["1.0", "1.0000", "0.7500"]}
    assert "1.000-1.000" in out
