"""A run whose reranker is dead says so, exits with 1, keeps what it has, and is mended by resuming."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from llm_server import Fault

Main = Callable[..., SimpleNamespace]


@pytest.fixture
def judged_by_llm(tiny: list[str], tmp_path: Path) -> list[str]:
    model = ["model=test", "max_retries=0", "backoff_initial_s=0", "breaker_failures=999"]
    model.append(f"cache_dir={tmp_path / 'record'}")
    kept = [option for option in tiny if not option.startswith("reranker")]
    asked = ["reranker=llm_pointwise", *(f"reranker.llm.{option}" for option in model)]
    policy = ["estimator=baseline", "scheduler=greedy", "scheduler.batch_size=2", "budget=unlimited"]
    free = "+reranker.llm.prices.test={prompt:0,completion:0}"
    return [*kept, *asked, free, *policy, "budget.max_reranker_docs=6", "hydra.run.dir=run"]


def summary_of(ended: SimpleNamespace) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((ended.cwd / "run" / "summary.json").read_text())
    return summary


def interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


def test_a_dead_reranker_ends_with_1_keeps_the_first_stages_results_and_is_mended_by_resuming(
    main: Main, judged_by_llm: list[str], llm_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    at_server = [*judged_by_llm, f"reranker.llm.base_url={llm_server.url}"]
    baseline = main(*at_server, "budget.max_reranker_docs=0", "hydra.run.dir=baseline")
    assert baseline.code == 0, baseline.err
    first_stage = json.loads((baseline.cwd / "baseline" / "summary.json").read_text())["measures"]

    llm_server.faults.extend([Fault("server_error")] * 999)
    ended = main(*at_server)
    assert ended.code == 1
    last = ended.err.splitlines()[-1]
    for said in ("the reranker failed", "queries given up", "first error: ", "resume=true"):
        assert said in last
    summary = summary_of(ended)
    assert summary["failures"]["status"] == "failed"
    assert summary["failures"]["share"] == 1.0
    assert summary["measures"]["R@100"] == first_stage["R@100"]

    (journal,) = (ended.cwd / "run").glob("journal*")
    before = journal.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr("experiments.cli.experiment.replay", interrupted)
        assert main(*at_server, "resume=true").code == 130
    assert journal.read_bytes() == before

    llm_server.reset()
    mended = main(*at_server, "resume=true")
    assert mended.code == 0, mended.err
    assert summary_of(mended)["failures"]["batches_failed"] == 0
    again = main(*at_server, "resume=true")
    assert "nothing to do" in again.err


POLICY = ["estimator._target_=misbehaving.BrokenPolicy", "budget=tight"]


def test_a_run_whose_policy_fails_ends_with_1_in_the_policys_words(main: Main, tiny: list[str]) -> None:
    ended = main(*tiny, *POLICY, "+estimator.on=''", "hydra.run.dir=run")
    assert ended.code == 1
    assert "4 of 4 queries given up; first error: KeyError: ''" in ended.err
    assert summary_of(ended)["failures"]["status"] == "failed"


def test_a_policy_that_fails_now_and_then_is_warned_of(main: Main, tiny: list[str]) -> None:
    ended = main(*tiny, *POLICY, "+estimator.on=honey", "hydra.run.dir=run")
    assert ended.code == 0
    warning = "queries that the policy gave up, first: estimator_failed, KeyError: 'honey'"
    assert summary_of(ended)["warnings"][warning] == 1


def test_a_component_that_ends_the_program_is_no_success(main: Main, tiny: list[str]) -> None:
    ended = main(*tiny, "reranker._target_=misbehaving.Quitter")
    assert ended.code == 1
    assert ended.err.splitlines()[-1].startswith("error: a component ended the program: SystemExit(0)")
