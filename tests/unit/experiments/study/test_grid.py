"""What a frontier configuration may say, and what it is told when it says something else."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Any

import pytest
import yaml

from experiments.config.compose import compose
from experiments.config.options import policy_name
from experiments.config.paths import CONF
from experiments.study.grid import FOLDER, CollectionEntry, PolicyEntry, composed, grid_of, load_grid
from ragtune.core.errors import ConfigError

CLAIM = {"name": "c", "policy": "ours", "against": "fixed", "budgets": 5}


@pytest.fixture
def raw() -> Callable[..., dict[str, Any]]:
    def make(**changes: Any) -> dict[str, Any]:
        fixed = {"name": "fixed", "label": "fixed depth", "kind": "baseline"}
        ours = {"name": "ours", "label": "ours", "kind": "ours"}
        base = {"name": "t", "collections": [{"name": "demo"}], "policies": [fixed, ours], "budgets": [5, 10]}
        return {**base, "measures": ["nDCG@10"], **changes}

    return make


def test_every_shipped_configuration_is_valid_down_to_its_components_and_a_policy_has_the_name_of_its_preset() -> None:
    """Every collection and every policy once, if not every pair: they meet in the variables of the collection only."""
    seen: set[tuple[str, ...]] = set()
    presets = sorted(file.stem for file in (CONF / "experiment").glob("*.yaml"))
    names = {}
    for name in sorted(file.stem for file in FOLDER.glob("*.yaml")):
        grid = load_grid(name, ["data=/data"])
        collections = [one for one in grid.collections if tuple(one.overrides) not in seen] or grid.collections[:1]
        policies = [one for one in grid.policies if tuple(one.choices) not in seen] or grid.policies[:1]
        for i in range(max(len(collections), len(policies))):
            collection, policy = collections[i % len(collections)], policies[i % len(policies)]
            config = composed(collection, policy, grid.seed)
            assert config["budget"]["max_reranker_docs"] is None
            names |= {preset: policy_name(config) for preset in presets if policy.choices == [f"experiment={preset}"]}
            seen |= {tuple(collection.overrides), tuple(policy.choices)}
        used = {one for policy in grid.policies for text in policy.choices for one in Template(text).get_identifiers()}
        assert all(used <= set(collection.variables) for collection in grid.collections)
    names |= {preset: policy_name(compose([f"experiment={preset}"])) for preset in presets if preset not in names}
    assert names == {name: name for name in presets} | {"uncertainty_vectors": "uncertainty"}  # a signal is no policy


def test_a_collection_belongs_to_the_family_that_names_its_group_else_it_is_one_by_itself() -> None:
    grid = load_grid("open", ["data=/data"])
    families = {entry.name: grid.family_of(entry) for entry in grid.collections}
    assert families["dl19 bm25 monot5"] == families["dl21 bm25 pash"] == "MS MARCO and TREC DL"
    assert set(families.values()) == set(grid.families)
    alone = load_grid("demo")
    assert alone.family_of(alone.collections[0]) == "demo"
    assert replace(alone, families={"mine": ["demo"]}).family_of(alone.collections[0]) == "mine"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"budgets": [10, 5]}, "ascending integers"),
        ({"unit": "tokens", "budgets": [0.5]}, "budgets=[0.5]: allowed are ascending integers"),
        ({"unit": "dollars"}, "unit: unknown 'dollars': allowed are docs, calls, tokens, ms, usd, flops"),
        ({"level": 1.0}, "level=1.0: Input should be less than 1"),
        ({"collections": [{"name": "a"}, {"name": "a"}]}, "given twice"),
        ({"collections": [{"name": "a/b"}]}, "collections.0.name=a/b: "),
        ({"policies": [{"name": "x", "kind": "ours"}]}, "policies: none is of kind baseline"),
        ({"families": {"f": ["demo"], "g": ["demo"]}}, "families: 'demo' is in two families: allowed is one"),
        ({"depth": 3}, "depth=3: Unexpected keyword argument; conf/frontier/demo.yaml explains every key"),
        ({"collections": [{"name": "a", "plain": "b"}]}, "plain of 'a': unknown 'b': allowed are a"),
        ({"claims": [CLAIM | {"policy": "best"}]}, "claim 'c': policy: unknown 'best': allowed are fixed, ours"),
        ({"claims": [CLAIM | {"depth": "most"}]}, "depth: unknown 'most': allowed are same, spent, fewer, 5, 10"),
    ],
)
def test_bad_values_are_refused_with_what_is_allowed(
    raw: Callable[..., dict[str, Any]], change: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        grid_of(raw(**change))
    assert said in str(refused.value)


def test_a_single_budget_or_measure_needs_no_brackets(raw: Callable[..., dict[str, Any]]) -> None:
    grid = grid_of(raw(budgets=5, measures="nDCG@10"))
    assert (grid.budgets, grid.measures) == ([5], ["nDCG@10"])


@pytest.mark.parametrize("content", ["budgets: [5", "- a\n", ""])
def test_a_file_or_an_option_that_is_no_configuration_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(content)
    with pytest.raises(ConfigError) as refused:
        load_grid(str(file))
    assert "\n" not in str(refused.value)
    with pytest.raises(ConfigError, match=r"budgets=\[5"):
        load_grid("demo", ["budgets=[5"])


def test_an_unknown_component_is_refused_with_policy_and_collection() -> None:
    policy = PolicyEntry("mine", "ours", "mine", ["estimator=nonsense"])
    with pytest.raises(ConfigError, match=r"policy 'mine' on collection 'demo'.*nonsense"):
        composed(CollectionEntry("demo"), policy, 0)


def test_variables_of_the_collection_reach_the_policy_and_a_missing_one_is_named() -> None:
    policy = PolicyEntry("mine", "ours", "mine", ["reranker.scores=$table"])
    config = composed(CollectionEntry("demo", variables={"table": "/t.run"}), policy, 3)
    assert config["reranker"]["scores"] == "/t.run"
    assert config["seed"] == 3
    with pytest.raises(ConfigError, match="no variable 'table'"):
        composed(CollectionEntry("demo"), policy, 0)


def test_a_choice_of_policies_keeps_the_baseline(raw: Callable[..., dict[str, Any]]) -> None:
    grid = grid_of(raw())
    assert [entry.name for entry in grid.only([], ["ours"]).policies] == ["fixed", "ours"]
    only_fixed = grid.only([], ["fixed"])
    assert [entry.name for entry in only_fixed.policies] == ["fixed"]
    with pytest.raises(ConfigError, match="unknown 'x'"):
        grid.only(["x"], [])


def test_a_missing_file_and_a_missing_data_folder_are_named() -> None:
    with pytest.raises(ConfigError, match=r"no frontier configuration 'nope'.*demo"):
        load_grid("nope")
    with pytest.raises(ConfigError, match="data"):
        load_grid("shared")


def test_a_file_stands_on_its_base_and_what_it_leaves_out_is_not_asked_for(tmp_path: Path) -> None:
    base = {"collections": [{"name": "a", "group": "g"}, {"name": "b", "plain": "a"}], "budgets": [5, 10]}
    fixed = {"name": "fixed", "kind": "baseline", "overrides": []}
    ours = [{"name": name, "kind": "ours", "overrides": []} for name in ("ours", "other")]
    base |= {"policies": [fixed, *ours], "measures": ["nDCG@10"], "claims": [CLAIM]}
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(base))
    own = {"base": str(tmp_path / "base.yaml"), "budgets": [5], "queries": 3}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(own))
    grid = load_grid(str(tmp_path / "own.yaml"), ["seed=4"])
    assert (grid.name, grid.budgets, grid.seed, grid.claims[0].against) == ("own", [5], 4, ["fixed"])
    assert grid.only([], ["other"]).claims == []
    alone = grid.only(["b"], [])
    assert alone.collections[0].plain == ""
    sampled = grid.configuration(grid.collections[0], grid.baseline)["dataset"]["sample"]
    assert sampled == {"queries": 3, "seed": 4}
