"""``ragtune NAME ...``: one name for everything, from wherever it is said."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import ROOT
from patience import HANG_S

from ragtune.cli import harness
from ragtune.cli.main import main

Call = Callable[..., SimpleNamespace]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def call(*words: str) -> SimpleNamespace:
        try:
            code = main(words)
        except SystemExit as end:
            code = end.code
        out, err = capsys.readouterr()
        return SimpleNamespace(code=code, out=out, err=err)

    return call


def test_help_lists_every_command_with_a_sentence_in_the_order_of_its_use(call: Call) -> None:
    modules = {file.stem for file in (ROOT / "experiments" / "commands").glob("[!_]*.py")}
    assert set(harness.COMMANDS) == modules
    helped = call("--help")
    places = [helped.out.index(f"\n  {name} ") for name in (*harness.COMMANDS, *harness.SERVICES)]
    assert places == sorted(places)
    described = harness.COMMANDS | harness.SERVICES
    assert all(f"\n  {name:<14}{summary}\n" in helped.out for name, summary in described.items())


def test_help_of_a_command_says_its_name(call: Call) -> None:
    names = [name for name in harness.COMMANDS if not getattr(harness.load(name), "VERBATIM", False)]  # Hydra's own
    for name in [*names, *harness.SERVICES]:
        helped = call(name, "--help")
        assert (helped.code, helped.out[: 15 + len(name)]) == (0, f"usage: ragtune {name}")
    assert call("--version").out.startswith("ragtune ")


def test_no_command_is_loaded_with_a_library_before_it_is_known_what_to_do() -> None:
    names = ", ".join(f"experiments.commands.{file.stem}" for file in (ROOT / "experiments/commands").glob("[!_]*.py"))
    heavy = "{'hydra', 'numpy', 'pydantic', 'pandas', 'mlflow', 'rich', 'matplotlib'}"
    code = f"import {names}, sys; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=HANG_S)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize(
    ("word", "meant"), [("rum", "; did you mean run?"), ("serv", "; did you mean serve?"), ("xyzzy", "")]
)
def test_an_unknown_command_is_told_with_what_may_have_been_meant(call: Call, word: str, meant: str) -> None:
    ended = call(word, "budget=20")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"error: no command {word!r}: ragtune --help lists them{meant}\n"


@pytest.mark.parametrize(
    ("words", "wrong", "whose"),
    [
        ([], "a command is missing", "ragtune"),
        (["serve", "--port", "many"], "argument --port: invalid int value: 'many'", "ragtune serve"),
        (["serve", "--nope"], "unrecognized arguments: --nope", "ragtune serve"),
        (["run", "--nope"], "unrecognized arguments: --nope", "ragtune run"),
        (["score", "dataset=demo"], "the following arguments are required: --out", "ragtune score"),
    ],
)
def test_words_that_do_not_fit_are_told_in_one_line(call: Call, words: list[str], wrong: str, whose: str) -> None:
    ended = call(*words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"error: {wrong}; {whose} --help says what is allowed\n"


def test_a_sweep_whose_output_nobody_reads_loses_no_job(
    environment: dict[str, str], tmp_path: Path, tiny: list[str]
) -> None:
    words = ["sweep", "budget=3,4", *tiny, "tracking=none", "hydra.sweep.dir=many"]
    command = [sys.executable, "-m", "ragtune", *words]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as swept:
        swept.stdout.close()
        told = swept.stderr.read()
        swept.wait(HANG_S)
    assert told == ""  # nothing of components, and no failed job
    assert not list(tmp_path.glob("many/*/error.json"))
    assert len(list(tmp_path.glob("many/*/summary.json"))) == 2


PROBE = '''
"""A reranker that says where its process has its code from."""
import importlib.util, json, os
import experiments, ragtune
from ragtune.rerankers.replay import ReplayReranker

class Probe(ReplayReranker):
    def __init__(self, **arguments):
        super().__init__(**arguments)
        spec = importlib.util.find_spec("datasets")
        places = [] if spec is None else list(spec.submodule_search_locations or [])
        with open(os.environ["PROBED"], "a") as log:
            log.write(json.dumps([os.getpid(), experiments.__file__, ragtune.__file__, places]) + "\\n")
'''


def test_run_py_and_its_workers_use_the_code_beside_it(
    environment: dict[str, str], tmp_path: Path, tiny: list[str]
) -> None:
    clone = tmp_path / "clone"  # another checkout than the one that is installed
    for name in ("ragtune", "experiments", "conf", "datasets", "scripts"):
        shutil.copytree(ROOT / name, clone / name)
    shutil.copy(ROOT / "run.py", clone)
    (tmp_path / "probing.py").write_text(PROBE)
    log = tmp_path / "log"
    variables = {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}", "PROBED": str(log)}
    fixed = ["executor=joblib", "executor.n_jobs=2", "reranker._target_=probing.Probe", "tracking=none"]
    command = [sys.executable, str(clone / "run.py"), *tiny, *fixed, f"hydra.run.dir={tmp_path}/out"]
    ended = subprocess.run(
        command, cwd=ROOT, env={**environment, **variables}, capture_output=True, text=True, timeout=HANG_S
    )
    assert ended.returncode == 0, ended.stderr
    probes = [json.loads(line) for line in log.read_text().splitlines()]
    assert len({process for process, *_ in probes}) >= 2
    for _, experiments, library, places in probes:
        assert experiments == str(clone / "experiments" / "__init__.py")
        assert library == str(clone / "ragtune" / "__init__.py")
        assert not {str(clone / "datasets"), str(ROOT / "datasets")} & set(places)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["study", "--polices", "x"], "did you mean --policies?"),
        (["study", "--config", "opne"], "did you mean open?"),
        (["serve", "--modle", "x"], "did you mean --model?"),
        (["advise", "--datset=demo"], "did you mean dataset=VALUE?"),
    ],
)
def test_a_slip_is_answered_with_what_is_spelled_nearly_so(
    words: list[str], meant: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = call(*words)
    assert ended.code == 2
    (line,) = ended.err.splitlines()
    assert line.startswith("error: ")
    assert line.endswith(meant)


def test_help_of_a_sweep_is_about_sweeps_and_has_every_choice(call: Call) -> None:
    run, sweep = (call(name, "--help").out.partition("\nChoices") for name in ("run", "sweep"))
    assert sweep[2] == run[2] != ""
    assert "ragtune sweep experiment=uncertainty,gar budget=5,10,20" in sweep[0]
