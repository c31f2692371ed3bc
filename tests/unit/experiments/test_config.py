"""Composition: what the command line means, as plain checked data."""

from __future__ import annotations

import json

import pytest
import yaml

from experiments.config import CONF, PROJECT_ROOT, compose, results_key
from experiments.inputs import identity
from experiments.options import known_options
from experiments.outputs import leaf
from ragtune.core.errors import ConfigError


def test_the_resolved_configuration_is_plain_data_without_interpolations() -> None:
    config = compose([])
    assert "${" not in json.dumps(config)
    assert config["dataset"]["path"] == str(PROJECT_ROOT / "datasets" / "demo")
    assert config["reranker"]["scores"] == config["dataset"]["scores"]


def test_hydras_own_part_is_left_out() -> None:
    assert "hydra" not in compose([])


def test_every_group_file_states_its_target_first() -> None:
    groups = {file.parent for file in CONF.glob("*/*.yaml") if "_target_:" in file.read_text()}
    assert {"dataset", "retriever", "estimator", "tracking", "acquisition"} <= {group.name for group in groups}
    for file in sorted(file for group in groups for file in group.glob("*.yaml")):
        keys = [key for key in yaml.safe_load(file.read_text()) if key != "defaults"]
        assert keys[0] == "_target_", file


@pytest.mark.parametrize("group", ["estimator", "scheduler", "expander"])
def test_a_policys_parts_are_called_in_results_as_they_are_chosen(group: str) -> None:
    files = sorted((CONF / group).glob("*.yaml"))
    assert files
    for file in files:
        assert leaf({group: yaml.safe_load(file.read_text())}, group) == file.stem


@pytest.mark.parametrize(
    ("overrides", "scheduler"),
    [
        ([], "settled"),
        (["estimator=uncertainty"], "settled"),
        (["estimator=baseline"], "greedy"),
        (["scheduler=greedy"], "greedy"),
        (["scheduler=one_shot", "estimator=uncertainty"], "one_shot"),
    ],
)
def test_an_estimator_may_bring_its_scheduler_and_the_command_line_wins(overrides: list[str], scheduler: str) -> None:
    assert compose(overrides)["scheduler"] == compose([f"scheduler={scheduler}"])["scheduler"]


def test_an_option_of_the_scheduler_that_an_estimator_brings_may_be_given() -> None:
    assert compose(["scheduler.threshold=0.4"])["scheduler"] == {**compose([])["scheduler"], "threshold": 0.4}


def test_known_options_are_those_of_the_composed_configuration() -> None:
    assert sorted(known_options()) == sorted(compose([]))


def test_the_pipelines_options_are_those_of_every_run_and_its_own() -> None:
    config = compose([], "pipeline")
    assert sorted(known_options("pipeline")) == sorted(config)
    assert set(config) - set(known_options()) == {"policy", "llm"}


@pytest.mark.parametrize("override", ["executor=joblib", "tracking=none", "verbosity=2", "dry_run=true", "resume=true"])
def test_options_that_change_where_a_run_happens_do_not_change_its_fingerprint(override: str) -> None:
    assert identity(compose([override])) == identity(compose([]))


@pytest.mark.parametrize("override", ["seed=1", "budget=standard", "scheduler.batch_size=3", "measures=[AP]"])
def test_options_that_change_results_change_the_fingerprint(override: str) -> None:
    assert identity(compose([override])) != identity(compose([]))


def test_the_key_handed_to_workers_is_canonical_json() -> None:
    config = compose([])
    assert results_key(dict(reversed(config.items()))) == results_key(config)
    assert json.loads(results_key(config))["seed"] == 0


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("dataset=beir", "dataset.path is missing: give it on the command line, dataset.path=VALUE"),
        ("dataset=irds", "dataset.id is missing"),
        ("estimator=nothing", "baseline"),
        ("+whatever=1", "unknown option 'whatever': allowed are dataset, retriever"),
        ("seed=abc", "seed='abc': allowed is a whole number >= 0"),
        ("seed=-1", "seed=-1"),
        ("resume=maybe", "resume='maybe': allowed are true and false"),
        ("dry_run=1", "dry_run=1: allowed are true and false"),
        ("verbosity=3", "verbosity=3: allowed are 0, 1 and 2"),
        ("plan=deep", "plan='deep'"),
        ("rerankers=2", "rerankers=2"),
        ("bootstrap.resamples=0", "bootstrap.resamples=0: allowed is a whole number >= 1"),
        ("bootstrap.level=1.0", "bootstrap.level=1.0: allowed is a number between 0 and 1"),
        ("bootstrap.level=high", "bootstrap.level='high': allowed is a number"),
        ("measures=nDCG@10", "measures='nDCG@10': allowed is a list"),
        ("measures=[1]", "measures=[1]"),
        ("~scheduler", "scheduler was deleted, but is needed: leave '~scheduler' out"),
        ("~tracking", "tracking was deleted"),
        ("~dataset", "dataset was deleted"),
        ("~plan", "plan was deleted"),
        ("~bootstrap.level", "bootstrap.level=None: allowed is a number"),
        ("~seed", "seed was deleted"),
        ("dataset.path=${nowhere}", "cannot be resolved"),
    ],
)
def test_a_bad_option_is_refused_by_name_with_what_is_allowed(override: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        compose([override])
    assert said in str(refused.value)
