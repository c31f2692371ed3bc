"""``ragtune prompt`` as people run it: a process of its own."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from patience import HANG_S

from ragtune.cli.main import main
from ragtune.superprompt import SuperPrompt
from ragtune.superprompt.stages.reranker import NO_RERANKER

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "datasets" / "demo"
PROMPT = "## Task\nExplain why my sourdough crumb is gummy.\n\n## Format\nA list"
BLOCKS = ("# System", "# Prompt", "# S_CTX", "# Attachments", "# Recent Conversation")

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

    def run(*arguments: Any, stdin: bytes = b"") -> SimpleNamespace:
        command = [sys.executable, "-m", "ragtune", "prompt", *map(str, arguments), "--reranker", "none"]
        variables = {**environment, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        ended = subprocess.run(command, cwd=cwd, env=variables, input=stdin, capture_output=True, timeout=HANG_S)
        return SimpleNamespace(code=ended.returncode, out=ended.stdout, err=ended.stderr.decode("utf-8", "replace"))

    return run


@pytest.fixture
def call_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Call:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def run(*arguments: Any) -> SimpleNamespace:
        code = main(["prompt", *map(str, arguments)])
        out, err = capfd.readouterr()
        return SimpleNamespace(code=code, out=out, err=err)

    return run


def test_auto_prints_the_final_prompt_of_stdin_and_a_conversation(call: Call, notes: Path, tmp_path: Path) -> None:
    turns = tmp_path / "turns.txt"
    turns.write_text("User: My sourdough is called Bob.\nAssistant: A fine name for a crumb.")
    ended = call("-", "--corpus", notes, "--auto", "--conversation", turns, stdin=PROMPT.encode())
    assert (ended.code, ended.err) == (0, f"ragtune: note: {NO_RERANKER}\n")
    text = ended.out.decode()
    places = [text.index(f"{block}\n") for block in BLOCKS]
    assert places == sorted(places)
    assert "A gummy crumb means it was cut hot." in text
    assert "früh" in text
    assert "conversation/0000#0" in text
    refused = call("-", "--corpus", notes, "--auto", stdin=b"\xff\xfe")
    assert (refused.code, refused.err.count("\n")) == (2, 1)


def test_without_a_model_the_documents_own_terms_rerank_and_what_is_attached_bears_on_the_question(
    call_here: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAGTUNE_CACHE", str(tmp_path / "cache"))
    ended = call_here("why is my bread dense", "--corpus", DEMO, "--auto", "--json")
    label = "terms and latent semantic analysis of the documents, without a model"
    assert (ended.code, ended.err) == (0, f"ragtune: note: reranked by {label}\n")
    sp = SuperPrompt.from_json(ended.out)
    assert sp.extras["reranked"]["reranker"] == label
    assert 3 <= len(sp.final_selection_ids) <= 12
    assert all(chunk_id.startswith("sourdough-") for chunk_id in sp.final_selection_ids[:5])


def test_json_is_the_whole_super_prompt_and_the_same_bytes_every_time(call: Call, call_here: Call, notes: Path) -> None:
    given = (PROMPT, "--corpus", notes, "--auto", "--json")
    first, second = call(*given).out.decode(), call_here(*given, "--reranker", "none").out
    assert first == second
    sp = SuperPrompt.from_json(first)
    assert sp.stage == "a5"
    assert sp.final_selection_ids == sp.views_by_stage["a4"]
    assert len(sp.extras["costs"]) == 8
    assert "ms" not in sp.extras["costs"][0]


def test_a_service_that_fails_is_one_line_and_exit_code_1(
    call_here: Call, notes: Path, llm_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from llm_server import Fault

    monkeypatch.setenv("SOME_KEY", "secret-of-the-test")
    llm_server.faults += [Fault("unauthorized")] * 9
    model = ["--llm-model", "m", "--llm-base-url", llm_server.url]
    model += ["--set", "llm.mode=live", "--set", "llm.api_key_env=SOME_KEY"]
    ended = call_here(PROMPT, "--corpus", notes, "--auto", *model)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("error: A2_PromptShaper failed")
    assert ended.err.count("\n") == 1
    assert "secret-of-the-test" not in ended.err


def test_the_final_prompt_is_answered_recorded_and_replayed(
    call_here: Call, notes: Path, llm_server: Any, tmp_path: Path
) -> None:
    from llm_server import Rule
    from superprompt_agents import ANSWERS, asked_by

    llm_server.rules[:] = [Rule(asked_by(name), answer) for name, answer in ANSWERS.items()]
    llm_server.rules.append(Rule(lambda chat: True, lambda chat: "It was cut hot [1]."))
    model = ["--llm-model", "m", "--llm-base-url", llm_server.url]
    file = tmp_path / "mine.yaml"
    file.write_text(f"memory: {{folder: {notes}}}")
    given = [PROMPT, "--config", file, "--answer", *model]
    first = call_here(*given)
    assert (first.code, first.out) == (0, "It was cut hot [1].\n")
    sent = len(llm_server.requests)
    assert "# Attachments" in json.dumps(llm_server.requests[-1].body)
    whole = json.loads(call_here(*given, "--set", "llm.mode=replay", "--json").out)
    assert len(llm_server.requests) == sent
    assert whole["answer"]["text"] == "It was cut hot [1]."
    assert SuperPrompt.from_json(json.dumps(whole["super_prompt"])).stage == "a5"


def test_a_collection_that_ragd_keeps_is_the_long_term_memory(
    call_here: Call, tiny_cross_encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from postgres_server import fresh_dsn

    from ragtune.canonical import chunk, index
    from ragtune.canonical.policies import ChunkPolicy
    from ragtune.canonical.store.database import PostgresDatabase
    from ragtune.canonical.types import SourceDocument
    from ragtune.embedders.hashing import HashingEmbedder

    dsn = fresh_dsn()
    monkeypatch.setenv("RAGTUNE_DSN", dsn)
    texts = {"crumb": "A gummy crumb was cut hot.", "new/rye.txt": "Dense rye is old.", "sea": "Ships sail."}
    with PostgresDatabase(dsn) as database:
        documents = [SourceDocument(doc_id=name, content=text) for name, text in texts.items()]
        index(
            [one for document in documents for one in chunk(document, ChunkPolicy())],
            database.open("kept", HashingEmbedder(128), create=True),
        )
    given = [PROMPT, "--collection", "kept", "--auto", "--json", "--reranker", "budgeted"]
    some = ["--set", "reranker.budget=1", "--set", f"reranker.model={tiny_cross_encoder}"]
    done = json.loads(call_here(*given, *some).out)
    assert "crumb#0" in done["views_by_stage"]["retrieval"]
    assert len(done["extras"]["reranked"]["scores"]) == 1
    # A file of a folder stands in for the document that an earlier state of it has in the collection.
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "rye.txt").write_text("Dense crumb of rye? Bake it longer.", encoding="utf-8")
    both = json.loads(call_here(*given[:5], "--corpus", "new").out)
    assert sorted(both["views_by_stage"]["retrieval"]) == ["crumb#0", "new/rye.txt#0"]
    # A collection and a folder with the same documents give the same prompt.
    (tmp_path / "crumb").mkdir()
    (tmp_path / "crumb" / "corpus.jsonl").write_text(
        "".join(f"{json.dumps({'_id': name, 'text': text})}\n" for name, text in texts.items()), encoding="utf-8"
    )
    options = [PROMPT, "--json", "--set", "reranker.model=not-here"]
    assert call_here(*options, "--collection", "kept").out == call_here(*options, "--corpus", "crumb").out
    other = call_here(PROMPT, "--collection", "kpt", "--auto")
    assert (other.code, other.err) == (2, "error: no collection 'kpt': there are 'kept'\n")


BAD = {
    "missing folder": (["--corpus", "nowhere", "--auto"], "there is no such folder"),
    "unknown stage": (["--corpus", "NOTES", "--until", "A1"], "allowed are A0_PreProcessing, A2_PromptShaper"),
    "limit out of range": (["--corpus", "NOTES", "--auto", "--set", "limits.N0_QUERY_PIECES=0"], "N0_QUERY_PIECES"),
    "no model": (
        ["--corpus", "NOTES", "--auto", "--reranker", "cross_encoder", "--set", "reranker.model=./nowhere"],
        "nowhere",
    ),
    "no database": (["--collection", "docs", "--data-dir", "nowhere"], "there is no such folder"),
    "two folders": (["--corpus", "NOTES", "--corpus", "other"], "/notes and other: allowed is one"),
    "url without model": (["--corpus", "NOTES", "--auto", "--llm-base-url", "http://x"], "--llm-model"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_exit_code_2(call_here: Call, notes: Path, case: str) -> None:
    given, message = BAD[case]
    ended = call_here(PROMPT, *(notes if word == "NOTES" else word for word in given))
    assert ended.code == 2, ended.err
    assert message in ended.err
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    assert ended.out == ""
