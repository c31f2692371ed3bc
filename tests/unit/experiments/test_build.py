"""Components out of configuration."""

import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from experiments.config import targets
from experiments.replay.build import build_session
from experiments.replay.component import component
from ragtune import BudgetedReranker
from ragtune.core.errors import ConfigError
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.clock import MonotonicClock, VirtualClock

Compose = Callable[..., dict[str, Any]]


def test_a_partial_component_is_completed_with_the_resources_its_constructor_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAGTUNE_COMPONENTS", "fractions")
    node = {"_target_": "fractions.Fraction", "_partial_": True, "denominator": 4}
    assert component({"thing": node}, "thing", {"numerator": 3, "denominator": 9, "corpus": 1}) == 0.75


@pytest.mark.parametrize(
    "target",
    [
        "os.mkdir",
        "experiments.publish.files.shutil.rmtree",
        "experiments.publish.files.Path.mkdir",
        "ragtune.core.request.budget.CostBudget.parse_raw",  # pydantic's, which can unpickle
        "ragtune.core.request.budget.CostBudget.__class__",
        "ragtune.core.${path}",  # Hydra would resolve it once more
        "hydra.utils.instantiate",
    ],
)
@pytest.mark.parametrize("is_nested", [False, True])
def test_a_preset_calls_nothing_but_components(target: str, is_nested: bool, tmp_path: Path) -> None:
    node = {"_target_": target, "path": str(tmp_path / "made")}
    outer = {"_target_": "ragtune.assemblers.greedy.GreedyAssembler", "inner": [node]}
    with pytest.raises(ConfigError, match=re.escape(f"thing._target_={target!r}: allowed")):
        component({"thing": outer if is_nested else node}, "thing")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ({"callbacks": {"x": {"_target_": "os.mkdir", "path": "made"}}}, "hydra.callbacks._target_='os.mkdir'"),
        ({"callbacks": {"x": "${evil}"}}, "hydra.callbacks._target_='os.mkdir'"),
        ({"job_logging": {"handlers": {"x": {"()": "os.mkdir", "path": "made"}}}}, "hydra.job_logging: 'os.mkdir'"),
        ({"hydra_logging": {"handlers": {"x": {"class": "logging.os.mkdir"}}}}, "'logging.os.mkdir'"),
        ({"job_logging": {"handlers": {"x": {"class": "logging.Handler", "y": "ext://os.mkdir"}}}}, "'os.mkdir'"),
        ({"job": {"env_set": {"RAGTUNE_COMPONENTS": "os"}}}, "hydra.job.env_set.RAGTUNE_COMPONENTS"),
    ],
)
def test_a_preset_has_hydra_call_nothing_else(node: dict[str, object], said: str) -> None:
    parts = {"callbacks": {}, "launcher": {}, "sweeper": {}, "job": {}, "hydra_logging": None, "job_logging": None}
    config = OmegaConf.create({"evil": {"_target_": "os.mkdir"}, "hydra": {**parts, **node}})
    with pytest.raises(ConfigError, match=re.escape(said)):
        targets.require_hydra_allowed(config.hydra)


def test_installed_packages_offer_components_by_an_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "offered_parts.py").write_text("class Part:\n    pass\n")
    about = tmp_path / "offered_parts-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: offered-parts\nVersion: 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    config = {"thing": {"_target_": "offered_parts.Part"}}
    targets.allowed_packages.cache_clear()
    with pytest.raises(ConfigError, match="RAGTUNE_COMPONENTS=offered_parts"):
        component(config, "thing")
    (about / "entry_points.txt").write_text("[ragtune.components]\nparts = offered_parts\n")
    targets.allowed_packages.cache_clear()
    assert type(component(config, "thing")).__name__ == "Part"
    targets.allowed_packages.cache_clear()


def test_signals_that_read_the_words_of_the_query_are_no_witnesses(compose_tiny: Compose, tmp_path: Path) -> None:
    (tmp_path / "t.run").write_text("q1 Q0 d1 1 1.0 x\n")
    table = [
        f"+signal.{name}={{_target_: ragtune.signals.table.TableSignal, path: {tmp_path / 't.run'}, witness: {w}}}"
        for name, w in (("clicks", "true"), ("again", "false"))
    ]
    signals = ["signal=[lexical,vectors]", "vectors@signal.vectors.vectors=tfidf", *table]
    session = build_session(compose_tiny("estimator=uncertainty", *signals))
    assert session.parts["estimator"].echoes == {"lexical", "vectors", "again"}


def test_signals_are_further_sources_of_every_policys_candidates(
    compose_tiny: Compose, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = build_session(compose_tiny("signal=[lexical,vectors]", "vectors@signal.vectors.vectors=tfidf"))
    answers = [
        made.controller.run(query, CostBudget.only(max_reranker_docs=0), query_id=query_id).documents
        for made in (session, build_session(compose_tiny()))
        for query_id, query in list(session.dataset.queries.items())[:1]
    ]
    assert {name for document in answers[0] for name in document.sources} == {"bm25", "lexical", "vectors"}
    assert sorted(document.id for document in answers[0]) == sorted(document.id for document in answers[1])
    monkeypatch.setenv("RAGTUNE_COMPONENTS", "fractions")
    with pytest.raises(ConfigError, match=r"signal\._target_='fractions.Fraction': allowed is a BaseSignal"):
        build_session(compose_tiny("+signal.mine._target_=fractions.Fraction"))


def test_time_is_virtual_exactly_where_every_reranker_is_recorded(compose_tiny: Compose) -> None:
    clock = lambda *overrides: build_session(compose_tiny(*overrides)).controller._make_clock  # noqa: E731
    assert clock() is VirtualClock
    assert clock("reranker=cross_encoder") is MonotonicClock
    assert clock("+reranker@rerankers.live=cross_encoder") is MonotonicClock
    assert clock("clock=monotonic") is MonotonicClock


def test_rewrites_are_retrieved_no_deeper_than_the_original_query(compose_tiny: Compose) -> None:
    plan = build_session(compose_tiny("retrieval.original_query_depth=3")).controller.rounds.plan
    assert (plan.original_query_depth, plan.depth_per_reformulation) == (3, 3)


@pytest.mark.parametrize("policy", ["bagel", "gar", "plackett_luce", "rgs", "similarity", "uncertainty"])
def test_vectors_that_are_a_mere_word_are_refused_with_how_they_are_chosen(policy: str, compose_tiny: Compose) -> None:
    with pytest.raises(ConfigError, match=r"estimator.vectors='dense': .* vectors@estimator.vectors=NAME"):
        build_session(compose_tiny(f"estimator={policy}", "estimator.vectors=dense"))


ONE, OTHER = "ship-2", "heart-1"
COMPARING = ("acurank", "blitzrank", "jointrank", "knockout", "plackett_luce", "sliding", "tdpart", "tourrank")


@pytest.fixture
def with_twins(collection: Path) -> Path:
    """The small collection, where two documents far apart in the first stage have one text and one score."""
    documents = [json.loads(line) for line in (collection / "corpus.jsonl").read_text().splitlines()]
    text = next(document for document in documents if document["_id"] == ONE)
    documents = [text | {"_id": OTHER} if document["_id"] == OTHER else document for document in documents]
    (collection / "corpus.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))
    lines = [line.split() for line in (collection / "scores.run").read_text().splitlines()]
    scores = {(query, doc): score for query, _, doc, _, score, _ in lines}
    for line in lines:
        line[4] = scores[line[0], ONE if line[2] == OTHER else line[2]]
    (collection / "scores.run").write_text("".join(" ".join(line) + "\n" for line in lines))
    return collection


@pytest.mark.usefixtures("with_twins")
@pytest.mark.parametrize(
    "policy",
    [
        ["estimator=uncertainty", "estimator.trust=0.1"],  # first-stage evidence, which differs, weighs much
        ["estimator=bagel"],
        ["experiment=fixed_depth"],
    ],
)
def test_twins_stay_together_in_a_replay(compose_tiny: Callable[..., dict[str, Any]], policy: list[str]) -> None:
    session = build_session(compose_tiny(*policy, "budget=unlimited"))
    met = 0
    for query_id, query in session.dataset.queries.items():
        output = session.controller.run(query, query_id=query_id)
        scores = dict(zip(output.history[-1].doc_ids, output.history[-1].columns.scores.tolist(), strict=True))
        if scores[ONE] == scores[OTHER]:  # equal, so neither is NaN: both were scored
            met += 1
            places = [output.ranking.index(doc_id) for doc_id in (ONE, OTHER)]
            assert abs(places[0] - places[1]) == 1
    assert met


@pytest.mark.parametrize("policy", COMPARING)
def test_twins_stay_together_where_windows_are_compared(policy: str) -> None:
    """Whoever compares sees twins in different windows, among others each time."""

    def scores(query: str, texts: list[str]) -> list[float]:
        return [zlib.crc32(text.encode()) / 2**32 for text in texts]

    reranker = BudgetedReranker(scores, policy=policy, docs=400, scale="identity")
    texts = [f"passage {i % 30}" for i in range(60)]  # the second half are twins of the first
    found = reranker.rank("passages", texts)
    places = {document.index: at for at, document in enumerate(found)}
    reranked = {document.index for document in found if document.reranked}
    both = [(i, i + 30) for i in range(30) if reranked.issuperset((i, i + 30))]
    assert both
    assert [abs(places[one] - places[other]) for one, other in both] == [1] * len(both)
