"""Composition: what the command line means, as plain checked data."""

import shutil
from pathlib import Path

import pytest
import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from omegaconf import OmegaConf

from experiments.cli.main import help_text
from experiments.config.compose import JobConfigs, compose, spelled_out
from experiments.config.options import leaf, policy_name
from experiments.config.paths import CONF
from experiments.replay.inputs import identity
from ragtune.core.errors import ConfigError


@pytest.mark.parametrize(
    ("hydras", "job"),
    [
        (["hydra.job.name=many"], ["experiment=gar", "measures=[AP,RR]", "seed=2", "estimator.k=4"]),
        (["hydra.run.dir=out/${seed}", "hydra.mode=RUN", "hydra/launcher=joblib"], ["seed=3"]),
        (["hydra.run.dir=${hydra.job.override_dirname}"], ["seed=2"]),
        ([], ["budget.max_reranker_docs=30", "estimator=quam", "budget=tight", "reranker.scores='a b'"]),
        ([], ["retriever=runs", "retriever.paths=[a.run]", "+rerankers.weak.k=1", "rerankers.weak.k=2", "~failures"]),
        (["hydra.sweep.subdir=${hydra.job.override_dirname}"], ["seed=2", "budget.max_reranker_docs=3"]),
    ],
)
def test_a_job_is_composed_as_hydra_would(hydras: list[str], job: list[str]) -> None:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        expected = hydra_compose("config", [*hydras, *job], return_hydra_config=True)
        jobs = JobConfigs(hydras)
        found = jobs.load_sweep_config(jobs.config, job)
    if "dirname" not in str(hydras):  # it is right where a folder is named by it
        found.hydra.job.override_dirname = expected.hydra.job.override_dirname
    assert OmegaConf.to_container(found, resolve=False) == OmegaConf.to_container(expected, resolve=False)


def test_a_file_that_is_edited_counts_in_the_same_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(CONF, tmp_path / "conf")
    monkeypatch.setattr("experiments.config.compose.CONF", tmp_path / "conf")
    was = compose(["estimator=gar"])["estimator"]["k"]
    file = tmp_path / "conf" / "estimator" / "gar.yaml"
    text = file.read_text()
    file.write_text(text.replace(f"k: {was}", f"k: {was + 1}"))
    assert compose(["estimator=gar"])["estimator"]["k"] == was + 1
    (tmp_path / "conf" / "estimator" / "mine.yaml").write_text(text)
    assert compose(["estimator=mine"])["estimator"]["k"] == was


@pytest.mark.parametrize("group", ["estimator", "scheduler", "expander"])
def test_a_policys_parts_are_called_in_results_as_they_are_chosen(group: str) -> None:
    files = sorted((CONF / group).glob("*.yaml"))
    assert files
    for file in files:
        assert leaf({group: yaml.safe_load(file.read_text())}, group) == file.stem


def test_signals_are_chosen_one_or_several_and_beside_any_policy() -> None:
    assert compose([])["signal"] == {}
    chosen = compose(["experiment=gar", "signal=[vectors,lexical]", "signal.vectors.vectors.embedder.model=m"])
    assert chosen["signal"]["vectors"]["vectors"]["embedder"]["model"] == "m"
    assert chosen["signal"].keys() == {"vectors", "lexical"}
    twice = ["signal=table", "signal.table.path=a.run", "+signal@signal.clicks=table", "signal.clicks.path=b.csv"]
    assert [node["path"] for node in compose(twice)["signal"].values()] == ["a.run", "b.csv"]


def test_the_command_line_wins_over_a_preset_whichever_comes_first() -> None:
    explicit = ["scheduler=one_shot", "assembler.ordering=final_score"]
    for overrides in (["experiment=gar", *explicit], [*explicit, "experiment=gar"]):
        assert policy_name(compose(overrides)) == "gar + one_shot + final_score"
    assert compose(["experiment=settled", "scheduler.threshold=0.4"])["scheduler"]["threshold"] == 0.4


def test_options_that_change_where_a_run_happens_are_not_in_its_fingerprint_and_those_that_change_results_are() -> None:
    plain = identity(compose([]))
    for where in ("executor=joblib", "tracking=none", "verbosity=2", "resume=true"):
        assert identity(compose([where])) == plain
    for what in ("seed=1", "budget=standard", "scheduler.batch_size=3", "measures=[AP]"):
        assert identity(compose([what])) != plain


@pytest.mark.parametrize(
    ("short", "unit", "limit"),
    [
        ("20", "max_reranker_docs", 20),
        ("3calls", "max_reranker_calls", 3),
        ("0.002usd", "max_cost_usd", 0.002),
        ("500ms", "max_latency_ms", 500),
    ],
)
def test_a_budget_can_be_an_amount(short: str, unit: str, limit: float) -> None:
    tight = compose(["budget=tight"])["budget"]
    expected = {**tight, "max_reranker_docs": None, unit: limit}
    assert compose([f"budget={short}"])["budget"] == expected


@pytest.mark.parametrize(
    ("axis", "jobs"),
    [
        ("tight,50", {"tight": {}, "50docs": {"max_reranker_docs": 50}}),
        ("0.002usd,tight", {"0.002usd": {"max_reranker_docs": None, "max_cost_usd": 0.002}, "tight": {}}),
    ],
)
def test_a_sweep_takes_names_and_amounts_of_budgets_together(axis: str, jobs: dict[str, dict[str, float]]) -> None:
    tight = compose(["budget=tight"])["budget"]
    assert sorted(spelled_out([f"budget={axis}"])[0].removeprefix("budget=").split(",")) == sorted(jobs)
    for choice, limits in jobs.items():
        assert compose([f"budget={choice}"])["budget"] == {**tight, **limits}


def test_amounts_of_a_sweep_have_one_unit() -> None:
    assert spelled_out(["budget=5,10docs", "seed=1"]) == ["budget=tight", "budget.max_reranker_docs=5,10", "seed=1"]
    for wrong in ("budget=5,10calls", "budget=20pages", "budget=1.5.2usd", "budget=-3", "budget=.5usd"):
        with pytest.raises(ConfigError, match=f"{wrong!r}: allowed are amounts of one unit, docs, calls"):
            spelled_out([wrong])


DEFAULTS = yaml.safe_load((CONF / "config.yaml").read_text())["defaults"]
GROUPS = [group for entry in DEFAULTS if isinstance(entry, dict) for group in entry if " " not in group]


def test_every_choice_has_its_sentence_and_the_default_its_mark() -> None:
    shown = help_text("seed: 0")
    assert shown.endswith("seed: 0")
    assert max(map(len, shown.splitlines())) <= 120
    words = " ".join(shown.split())
    for group in GROUPS:
        for file in (CONF / group).glob("*.yaml"):
            sentence = next(
                line for line in file.read_text().splitlines() if line[:2] == "# " and "@package" not in line
            )
            assert f" {file.stem} {' '.join(sentence[2:].split())}" in words, file
    assert "* greedy Batches by promise" in words


def test_no_group_of_conf_is_left_out() -> None:
    listed = {line.partition("@")[0] for line in help_text("").splitlines() if line and line[0] != " "}
    elsewhere = {"frontier", "paper", "store", "hydra"}  # of ragtune study, reproduce, ingest, and Hydra itself
    assert {folder.name for folder in CONF.iterdir() if folder.is_dir()} - elsewhere <= listed
