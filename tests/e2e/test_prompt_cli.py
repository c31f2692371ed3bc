"""``ragtune prompt`` as people run it: a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from patience import HANG_S

from ragtune.adapters.cli import main
from ragtune.superprompt import SuperPrompt

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "datasets" / "demo"
PROMPT = "## Task\nExplain why my sourdough crumb is gummy.\n\n## Format\nA list"
BLOCKS = ("# System", "# Prompt", "# S_CTX", "# Attachments")

Call = Callable[..., SimpleNamespace]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "bread.md").write_text("# Crumb\n\nA gummy crumb means it was cut hot.", encoding="utf-8")
    (folder / "rye.txt").write_text(
        "Sourdough rye needs a long bake: früh genug heraus, und es klebt.", encoding="utf-8"
    )
    return folder


@pytest.fixture
def call(environment: dict[str, str], tmp_path: Path) -> Call:
    """Runs ``ragtune prompt`` in an empty folder, in a locale that knows ASCII only."""
    cwd = tmp_path / "cwd"
    cwd.mkdir()

    def run(*arguments: Any, stdin: bytes = b"", **env: str) -> SimpleNamespace:
        command = [sys.executable, "-m", "ragtune.adapters.cli", "prompt", *map(str, arguments)]
        variables = {**environment, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", **env}
        ended = subprocess.run(command, cwd=cwd, env=variables, input=stdin, capture_output=True, timeout=HANG_S)
        return SimpleNamespace(code=ended.returncode, out=ended.stdout, err=ended.stderr.decode("utf-8", "replace"))

    return run


@pytest.fixture
def call_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Call:
    """The same without a process of its own, for the many ways to be wrong."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def run(*arguments: Any) -> SimpleNamespace:
        code = main(["prompt", *map(str, arguments)])
        out, err = capfd.readouterr()
        return SimpleNamespace(code=code, out=out, err=err)

    return run


def test_auto_prints_the_final_prompt_and_the_same_bytes_every_time(call: Call, notes: Path) -> None:
    first, second = (call(PROMPT, "--corpus", notes, "--auto") for _ in range(2))
    assert (first.code, first.err) == (0, "")
    text = first.out.decode()
    places = [text.index(f"{block}\n") for block in BLOCKS]
    assert places == sorted(places)
    assert "A gummy crumb means it was cut hot." in text
    assert "früh" in text
    assert first.out == second.out


def test_the_demo_collection_is_a_corpus(call: Call) -> None:
    ended = call("why is my bread so dense", "--corpus", DEMO, "--auto", "--limits", "N3_FINAL_SELECTION_MAX=3")
    assert ended.code == 0, ended.err
    assert ended.out.decode().count("SOURCE: memory ") == 3


def test_json_is_the_whole_super_prompt_and_the_same_bytes_every_time(call: Call, notes: Path) -> None:
    first, second = (call(PROMPT, "--corpus", notes, "--auto", "--json") for _ in range(2))
    assert first.out == second.out
    sp = SuperPrompt.from_json(first.out.decode())
    assert sp.stage == "a5"
    assert sp.final_selection_ids == sp.views_by_stage["a4"]
    assert len(sp.extras["costs"]) == 8
    assert "ms" not in sp.extras["costs"][0]
    timed = call(PROMPT, "--corpus", notes, "--auto", "--json", "--timings")
    assert sum(entry["ms"] for entry in json.loads(timed.out)["extras"]["costs"]) > 0


def test_until_stops_after_the_stage(call: Call, notes: Path) -> None:
    ended = call(PROMPT, "--corpus", notes, "--until", "Retrieval", "--json")
    assert SuperPrompt.from_json(ended.out.decode()).stage == "retrieval"


def test_a_dash_reads_stdin_and_a_file_brings_the_conversation(call: Call, notes: Path, tmp_path: Path) -> None:
    turns = tmp_path / "turns.txt"
    turns.write_text("User: My sourdough is called Bob.\nAssistant: A fine name for a crumb.")
    ended = call("-", "--corpus", notes, "--auto", "--conversation", turns, stdin=PROMPT.encode())
    assert ended.code == 0, ended.err
    assert "# Recent Conversation" in ended.out.decode()
    assert "conversation/0000#0" in ended.out.decode()


def test_nothing_found_is_a_note_and_no_failure(call: Call, notes: Path) -> None:
    ended = call("Zebras?", "--corpus", notes, "--auto")
    assert ended.code == 0
    assert "ragtune: note:" in ended.err


def test_rerankers_read_no_more_than_they_may(
    call: Call,
    call_here: Call,
    tiny_cross_encoder: str,
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAGTUNE_CACHE", environment["RAGTUNE_CACHE"])  # whoever scores a text first measures its time
    given = ["why is my bread so dense", "--corpus", DEMO, "--json", "--until", "ReRanker"]
    given += ["--reranker-model", tiny_cross_encoder]
    budgeted = json.loads(call_here(*given, "--reranker", "budgeted", "--budget", "12").out)
    assert len(budgeted["extras"]["reranked"]["scores"]) == 12
    first, second = (start(*given, "--reranker", "cross_encoder") for start in (call, call_here))
    assert len(json.loads(first.out)["extras"]["reranked"]["scores"]) == 50
    assert first.out.decode() == second.out


def test_a_service_that_fails_is_one_line_and_exit_code_1(call: Call, notes: Path, llm_server: Any) -> None:
    from llm_server import Fault

    llm_server.faults += [Fault("unauthorized")] * 9
    model = ["--llm-model", "m", "--llm-base-url", llm_server.url, "--llm-mode", "live", "--llm-key-env", "SOME_KEY"]
    ended = call(PROMPT, "--corpus", notes, "--auto", *model, SOME_KEY="secret-of-the-test")
    assert ended.code == 1
    assert ended.out == b""
    assert ended.err.startswith("ragtune: A2_PromptShaper failed")
    assert ended.err.count("\n") == 1
    assert "secret-of-the-test" not in ended.err


BAD = {
    "missing folder": (["--corpus", "nowhere", "--auto"], "there is no such folder"),
    "empty folder": (["--corpus", "EMPTY", "--auto"], "holds no document"),
    "not UTF-8": (["--corpus", "LATIN", "--auto"], "latin.txt: not UTF-8"),
    "unknown stage": (["--corpus", "NOTES", "--until", "A1"], "allowed are A0_PreProcessing, A2_PromptShaper"),
    "how far": (["--corpus", "NOTES"], "--auto and --until"),
    "both": (["--corpus", "NOTES", "--auto", "--until", "Retrieval"], "--auto and --until"),
    "unknown limit": (["--corpus", "NOTES", "--auto", "--limits", "N9=1"], "N9"),
    "limit out of range": (["--corpus", "NOTES", "--auto", "--limits", "N0_QUERY_PIECES=0"], "N0_QUERY_PIECES"),
    "malformed limit": (["--corpus", "NOTES", "--auto", "--limits", "N0_QUERY_PIECES"], "NAME=NUMBER"),
    "unknown reranker": (["--corpus", "NOTES", "--auto", "--reranker", "magic"], "magic"),
    "no model": (
        ["--corpus", "NOTES", "--auto", "--reranker", "cross_encoder", "--reranker-model", "./nowhere"],
        "nowhere",
    ),
    "model without reranker": (["--corpus", "NOTES", "--auto", "--reranker-model", "x"], "--reranker cross_encoder"),
    "missing conversation": (["--corpus", "NOTES", "--auto", "--conversation", "nowhere.txt"], "cannot be read"),
    "url without model": (["--corpus", "NOTES", "--auto", "--llm-base-url", "http://x"], "--llm-model"),
    "timings alone": (["--corpus", "NOTES", "--auto", "--timings"], "--json"),
    "nothing recorded": (
        ["--corpus", "NOTES", "--auto", "--llm-model", "m", "--llm-mode", "replay"],
        "A2_PromptShaper",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_exit_code_2(call_here: Call, notes: Path, tmp_path: Path, case: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "latin").mkdir()
    (tmp_path / "latin" / "latin.txt").write_bytes("Früh".encode("latin-1"))
    places = {"EMPTY": tmp_path / "empty", "LATIN": tmp_path / "latin", "NOTES": notes}
    given, message = BAD[case]
    ended = call_here(PROMPT, *(places.get(word, word) for word in given))
    assert ended.code == 2, ended.err
    assert message in ended.err
    assert ended.err.startswith("ragtune: ")
    assert ended.err.count("\n") == 1
    assert ended.out == ""


@pytest.mark.parametrize(("prompt", "stdin"), [("-", b"\xff\xfe"), ("-", b""), ("  ", b"")])
def test_a_prompt_that_says_nothing_or_is_no_text_is_refused(
    call: Call, notes: Path, prompt: str, stdin: bytes
) -> None:
    ended = call(prompt, "--corpus", notes, "--auto", stdin=stdin)
    assert ended.code == 2
    assert ended.err.count("\n") == 1
