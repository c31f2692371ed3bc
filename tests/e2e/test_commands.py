"""``ragtune NAME ...``: one name for everything, from wherever it is said."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import ROOT
from patience import HANG_S

from ragtune.cli import harness
from ragtune.cli.main import SERVICES, main

ALIASES = {
    "build_graph": "graph",
    "compare": "compare",
    "conformance": "conformance",
    "frontier": "study",
    "ingest": "ingest",
    "relog": "relog",
    "score_table": "score",
}

Call = Callable[..., SimpleNamespace]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """``ragtune`` in this process."""

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
    places = [helped.out.index(f"\n  {name} ") for name in (*harness.COMMANDS, *SERVICES)]
    assert places == sorted(places)
    assert all(f"\n  {name:<14}{summary}\n" in helped.out for name, summary in harness.COMMANDS.items())
    assert max(map(len, helped.out.splitlines())) <= 120


@pytest.mark.parametrize("name", harness.COMMANDS)
def test_help_of_a_command_says_its_name_and_starts_at_once(call: Call, name: str) -> None:
    if getattr(harness.load(name, ()), "VERBATIM", False):
        return  # Hydra's own
    helped = call(name, "--help")
    assert helped.code == 0
    assert helped.out.startswith(f"usage: ragtune {name} ")
    assert "scripts/" not in helped.out


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
        (["sweep", "--nope"], "unrecognized arguments: --nope", "ragtune sweep"),
        (["score", "dataset=demo"], "the following arguments are required: --out", "ragtune score"),
    ],
)
def test_words_that_do_not_fit_are_told_in_one_line(call: Call, words: list[str], wrong: str, whose: str) -> None:
    ended = call(*words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"error: {wrong}; {whose} --help says what is allowed\n"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["run", "--polcy", "x"], "experiment=VALUE"),
        (["run", "--estimator", "uncertainty"], "estimator=VALUE"),
        (["sweep", "--budgt=20"], "budget=VALUE"),
        (["run", "--multirn"], "--multirun"),
        (["study", "--polcy", "x"], "--policies"),
        (["advise", "--datset=demo"], "dataset=VALUE"),
        (["compare", "--outt", "x"], "--out"),
    ],
)
def test_a_misspelled_option_is_answered_with_one_that_exists(call: Call, words: list[str], meant: str) -> None:
    ended = call(*words)
    assert (ended.code, ended.out) == (2, "")
    name = words[0]
    assert f"; ragtune {name}" in ended.err
    assert ended.err.endswith(f"says what is allowed; did you mean {meant}?\n")


def test_the_version_is_told(call: Call) -> None:
    assert call("--version").out.startswith("ragtune ")


def test_every_script_is_the_command_of_the_same_work(run: Call, tmp_path: Path) -> None:
    for script, name in ALIASES.items():
        text = (ROOT / "scripts" / f"{script}.py").read_text()
        assert f'sys.exit(main("{name}"))' in text
        assert len(text.splitlines()) <= 12
    helped = run("--help", script="scripts/build_graph.py", cwd=tmp_path)
    assert (helped.code, helped.out.splitlines()[0][:20]) == (0, "usage: ragtune graph")


def ragtune(*words: str, cwd: Path, environment: dict[str, str]) -> SimpleNamespace:
    command = [sys.executable, "-P", "-m", "ragtune", *words]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=HANG_S)
    return SimpleNamespace(code=done.returncode, out=done.stdout, err=done.stderr)


def test_run_is_run_py_from_an_empty_folder_and_sweep_has_one_table(
    environment: dict[str, str], tmp_path: Path, tiny: list[str]
) -> None:
    def call(*words: str) -> SimpleNamespace:
        return ragtune(*words, *tiny, "tracking=none", "hydra.run.dir=one", cwd=tmp_path, environment=environment)

    assert call("run", "budget=3").out.splitlines()[-1] == str(tmp_path / "one")
    assert (tmp_path / "one" / "summary.json").is_file()
    swept = call("sweep", "budget=3,4", "verbosity=0", "hydra.sweep.dir=many")
    assert swept.code == 0, swept.err
    assert {folder.name for folder in (tmp_path / "many").iterdir() if folder.is_dir()} == {"0", "1"}
    refused = call("run", "budgt=3")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "ragtune run --help" in refused.err


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
    assert "failed" not in told
    assert not list(tmp_path.glob("many/*/error.json"))
    assert len(list(tmp_path.glob("many/*/summary.json"))) == 2


def test_the_checkout_of_the_current_folder_comes_before_the_installed_one(
    environment: dict[str, str], tmp_path: Path
) -> None:
    for file in ("run.py", "conf/config.yaml", "experiments/commands/__init__.py", "ragtune/cli/harness.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    for package in ("ragtune", "ragtune/cli", "experiments"):
        (tmp_path / package / "__init__.py").touch()
    (tmp_path / "ragtune" / "__main__.py").write_text("import sys; print('another', *sys.argv[1:])")
    below = tmp_path / "results" / "runs"
    below.mkdir(parents=True)
    done = ragtune("run", "budget=20", "-m", cwd=below, environment=environment)
    assert (done.code, done.out) == (0, "another run budget=20 -m\n"), done.err


def test_the_folder_that_one_is_in_may_be_gone(environment: dict[str, str], tmp_path: Path) -> None:
    code = f"import os, sys; os.rmdir({str(tmp_path / 'gone')!r}); from ragtune.cli.main import main; main(['--help'])"
    (tmp_path / "gone").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "gone", env={**os.environ, **environment}, capture_output=True
    )
    assert b"\n  study " in done.stdout
