"""Beyond what ``tests/conformance/test_gar_reference.py`` compares with the reference."""

from __future__ import annotations

import pytest

from ragtune.core.errors import ConfigError
from ragtune.core.pool.items import ItemState
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.estimators.graph.gar import GAREstimator


@pytest.fixture
def gar(letters, folder):
    return GAREstimator(letters, TfidfEmbedder, k=2, graph=folder)


def test_sources_take_turns(gar, make_pool, make_context, score, advise):
    pool, context = make_pool(), make_context()
    assert advise(gar, pool, context) == "abcdef"
    score(pool, a=0.5, b=0.9)
    assert advise(gar, pool, context) == "fde"
    score(pool, f=0.1, d=0.2)
    assert advise(gar, pool, context) == "ce"


def test_a_source_that_has_run_dry_is_passed_over(gar, make_pool, make_context, score, advise):
    pool, context = make_pool("cdab"), make_context()
    score(pool, c=0.5)
    assert advise(gar, pool, context) == "dab"
    score(pool, d=0.4)
    assert advise(gar, pool, context) == "ab"


def test_discovered_documents_are_reachable_through_the_neighbour_queue_alone(
    gar, make_pool, make_context, score, discover, advise
):
    pool, context = make_pool("ac"), make_context()
    advise(gar, pool, context)
    score(pool, c=0.5)
    assert advise(gar, pool, context) == "a"
    discover(pool, "x", "y")
    assert advise(gar, pool, context) == "x"
    score(pool, x=0.1)
    assert advise(gar, pool, context) == "a"
    score(pool, a=0.2)
    assert advise(gar, pool, context) == "y", "what neither source reaches comes last, but it comes"


def test_a_failed_batch_passes_the_turn_on(gar, make_pool, make_context, score, advise):
    pool, context = make_pool(), make_context()
    score(pool, a=0.5)
    assert advise(gar, pool, context) == "ef"
    pool.transition(["e"], ItemState.IN_FLIGHT)
    pool.transition(["e"], ItemState.DROPPED)
    assert advise(gar, pool, context) == "bcdf"


def test_the_turn_passes_with_batches_and_with_nothing_else(gar, make_pool, make_context, score, advise):
    pool, context = make_pool(), make_context()
    score(pool, a=0.5)
    assert advise(gar, pool, context) == "ef"
    pool.transition(["f"], ItemState.DROPPED)
    assert advise(gar, pool, context) == "e"
    pool.transition(["c"], ItemState.DROPPED)
    assert advise(gar, pool, context) == "e"
    score(pool, b=0.4)
    score(pool, e=0.3)
    assert advise(gar, pool, context) == "d", "two batches: the other source's turn came and went"


def test_without_a_graph_the_neighbours_are_those_in_the_pool_by_text(corpus, items, make_context, advise, score):
    from ragtune.core.pool.pool import CandidatePool

    pool, context = CandidatePool(items), make_context()
    gar = GAREstimator(corpus, TfidfEmbedder, k=1)
    pool.apply_priorities(gar.value(pool, context))
    pool.transition(["bread-1"], ItemState.IN_FLIGHT)
    pool.update_scores({"bread-1": 0.9}, "default")
    pool.apply_priorities(gar.value(pool, context))
    assert pool.top_candidates(1) == ["bread-2"]
    assert pool.estimates.batch_limit == 1


def test_the_first_stage_s_order_is_what_unscored_documents_are_worth(gar, make_pool, make_context):
    pool = make_pool()
    values = gar.value(pool, make_context())
    assert list(values.values()) == sorted(values.values(), reverse=True)
    assert (values["a"], values["f"]) == (1.0, 0.0)


@pytest.mark.parametrize("arguments", [{"k": 0}, {"k": 3}, {"k": 1.5}])
def test_bad_arguments_are_refused(letters, folder, arguments):
    with pytest.raises(ConfigError, match="k="):
        GAREstimator(letters, TfidfEmbedder, graph=folder, **arguments)


def test_a_folder_without_a_graph_is_refused(letters, tmp_path):
    with pytest.raises(ConfigError, match="no corpus graph"):
        GAREstimator(letters, TfidfEmbedder, graph=str(tmp_path))
