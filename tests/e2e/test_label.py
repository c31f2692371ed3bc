"""ragtune label: in the terminal, as a sheet, by a model and on its page, and what ragtune advise makes of it."""

import csv
import json
import os
import pty
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import ROOT
from patience import HANG_S, wait_until
from web_pages import NEEDS_CHROMIUM, browser_page, served

from experiments.datasets.beir import read_qrels
from ragtune.cli.main import main

Label = Callable[..., SimpleNamespace]


@pytest.fixture
def label(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Label:
    """Runs the command in this process with the given keys, into ``out``: code, out and err."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGTUNE_CACHE", environment["RAGTUNE_CACHE"])

    def call(*words: str, keys: str = "", command: str = "label", out: str = "out") -> SimpleNamespace:
        monkeypatch.setattr(sys, "stdin", StringIO(keys))
        code = main([command, "--out", out, *words]) or 0
        said = capsys.readouterr()
        return SimpleNamespace(code=code, out=said.out, err=said.err)

    return call


def journal(folder: Path = Path("out")) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "labels.jsonl").read_text().splitlines()]


def decision(folder: Path = Path("out")) -> dict[str, Any]:
    return dict(json.loads((folder / "decision.json").read_text()))


def sheet(file: str) -> list[dict[str, str]]:
    with Path(file).open(newline="") as rows:
        return list(csv.DictReader(rows))


def save(file: str, rows: list[dict[str, str]], separator: str = ",") -> None:
    with Path(file).open("w", newline="", encoding="utf-8-sig") as out:  # as spreadsheets write it
        table = csv.DictWriter(out, [*rows[0]], delimiter=separator)
        table.writeheader()
        table.writerows(rows)


def test_keys_grade_skip_and_undo_and_the_next_command_goes_on(label: Label) -> None:
    first = label(keys="3 0 x s u u 1 q")
    assert first.code == 0
    assert "'x' is no key here: 0-3 grade, s skip, u undo, q quit" in first.out
    assert [(one["grade"], one["by"]) for one in journal()] == [
        (3, "person"), (0, "person"), ("skip", "person"), (None, "person"), (None, "person"), (1, "person"),
    ]  # fmt: skip
    shown = re.findall(r"^Document ([\w-]+):", first.out, re.MULTILINE)
    second = label(keys="2")
    assert re.findall(r"^Document ([\w-]+):", second.out, re.MULTILINE)[0] == shown[-1]
    qrels = read_qrels(Path("out/qrels.tsv"))
    assert sorted(grade for judged in qrels.values() for grade in judged.values()) == [1, 2, 3]
    assert decision()["labels"] == 3


def test_a_real_terminal_needs_no_enter_and_is_left_as_it_was(environment: dict[str, str], tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "ragtune", "label", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, cwd=ROOT
    )
    said = b""

    def says(text: bytes) -> bool:
        nonlocal said
        said += os.read(process.stdout.fileno(), 65536)
        return text in said

    wait_until(lambda: says(b"q quit] "))
    os.write(ours, b"2")
    wait_until(lambda: says(b"1 label"))
    process.send_signal(signal.SIGKILL)
    process.wait(HANG_S)
    assert [one["grade"] for one in journal(tmp_path / "out")] == [2]


def test_a_sheet_goes_out_and_comes_back(label: Label) -> None:
    assert label("--csv", "sheet.csv", "--labels", "6").code == 0
    rows = sheet("sheet.csv")
    assert len(rows) == 6
    assert all(row["query"] and row["text"] and not row["grade"] for row in rows)
    for row, grade in zip(rows, ["3", "0", " 1 ", "", "2", "0"], strict=True):
        row["grade"] = grade

    save("sheet.csv", rows, ";")
    assert "5 grades read, 1 rows without one" in label("--csv", "sheet.csv").out
    save("sheet.csv", rows)
    label("--csv", "sheet.csv")  # nothing new
    assert [one["grade"] for one in journal()] == [3, 0, 1, 2, 0]
    assert sum(map(len, read_qrels(Path("out/qrels.tsv")).values())) == 5
    curve = label("dataset.qrels=out/qrels.tsv", command="calibrate", out="made.json")
    assert "5 documents, 3 queries, 3 relevant" in curve.out, curve.err
    rows[3]["grade"] = "4"
    save("sheet.csv", rows)
    refused = label("--csv", "sheet.csv")
    assert refused.code == 2
    assert re.fullmatch(r"error: sheet\.csv:5: 'grade' is '4': allowed are 0, 1, 2, 3 and nothing\n", refused.err)


def test_labels_of_a_model_are_marked(label: Label, llm_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    told = label("--llm", f"local model=test base_url={llm_server.url} mode=live", "--labels", "8")
    assert told.code == 0, told.err
    assert len(llm_server.requests) == 8
    assert {one["by"] for one in journal()} == {"test"}
    assert decision()["by_models"] == {"test": 8}
    assert "8 by the model test" in told.out
    llm_server.answer("I cannot say")
    failed = label("--llm", f"local model=test base_url={llm_server.url} mode=live", "--labels", "2")
    assert failed.code == 1
    assert failed.err.startswith("error: test graded none of 2 documents")
    assert len(journal()) == 8


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["budget=20"], "error: 'budget=20': allowed are options of dataset"),
        (["--llm", "model=x"], "error: --llm 'model=x': allowed is a file of conf/llm"),
        (["--page", "--port", "70000"], "error: --port 70000"),
    ],
)
def test_bad_input_is_one_line(label: Label, words: list[str], told: str) -> None:
    refused = label(*words)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert refused.err.startswith(told)


def test_advice_follows_the_labels(label: Label) -> None:
    """The demo's own judgments say that its reranker helps; turned round, that it harms."""
    judged = read_qrels(ROOT / "datasets/demo/qrels/test.tsv")
    half = ("dataset.every=2", "retrieval.original_query_depth=30")
    for out, turned in (("good", False), ("bad", True)):
        label(*half, "--csv", f"{out}.csv", "--labels", "200", out=out)
        rows = sheet(f"{out}.csv")
        for row in rows:
            grade = judged.get(row["query_id"], {}).get(row["doc_id"], 0)
            row["grade"] = str(2 * (grade == 0) if turned else min(grade, 3))
        save(f"{out}.csv", rows)
        label(*half, "--csv", f"{out}.csv", out=out)
    assert decision(Path("good"))["decision"]["verdict"] == "helps"
    assert decision(Path("bad"))["decision"]["verdict"] == "harms"

    def advise(*words: str) -> SimpleNamespace:
        return label(*half, *words, "--jobs", "1", command="advise", out="advice")

    good = advise("dataset.qrels=good/qrels.tsv")
    assert good.code == 0, good.err
    assert "If you want the full reranking" not in good.out
    assert "The reranker helps: " in good.out
    said = json.loads(Path("advice/advice.json").read_text())
    assert "dataset.split=null" in said["use"]["run"]
    assert said["source_agreement"] is None  # labels that decide are better evidence
    bad = advise("dataset.qrels=bad/qrels.tsv")
    assert "Do not rerank: by the labels" in bad.out
    assert json.loads(Path("advice/advice.json").read_text())["recommended"]["budget"] == 0
    other = advise("dataset.qrels=bad/qrels.tsv", "retriever.depth=20")
    assert other.code == 2
    with Path("bad/qrels.tsv").open("a") as file:
        file.write("q01\tbee-01\t1\n")
    changed = advise("dataset.qrels=bad/qrels.tsv")
    assert changed.code == 2
    assert "rename the file" in changed.err


@pytest.fixture(scope="module")
def page_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page") / "out"


@pytest.fixture(scope="module")
def address(environment: dict[str, str], page_folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "ragtune", "label", "--page", "--out", str(page_folder)]
    with served(command, "/state", cwd=ROOT, env=environment) as url:
        yield url


def refused(url: str, **options: Any) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, **options), timeout=HANG_S) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_the_page_answers_no_other_site(address: str, page_folder: Path) -> None:
    body = json.dumps({"action": "undo"}).encode()
    assert refused(f"{address}/state", headers={"Host": "evil.example"}) == 403
    assert refused(f"{address}/act", data=body, headers={"Content-Type": "text/plain"}) == 403
    assert refused(f"{address}/act", data=b"[", headers={"Content-Type": "application/json"}) == 400
    assert refused(f"{address}/act", data=b"{}", headers={"Content-Type": "application/json"}) == 400
    assert refused(f"{address}/labels.jsonl") == 404
    assert not (page_folder / "labels.jsonl").exists()


@pytest.mark.browser
@NEEDS_CHROMIUM
def test_the_page_is_worked_by_keys_and_buttons(address: str, page_folder: Path) -> None:
    with browser_page(420, 900) as page:
        page.goto(address)
        page.locator("#text").filter(has_text=re.compile(r"\w")).wait_for()
        first = page.locator("#id").inner_text()
        page.keyboard.press("2")
        page.locator("#said").filter(has_text=re.compile(r"\b1 label ")).wait_for()
        assert page.locator("#id").inner_text() != first
        page.get_by_role("button", name="0", exact=True).click()
        page.locator("#said").filter(has_text=re.compile(r"\b2 labels ")).wait_for()
        page.keyboard.press("u")
        page.locator("#said").filter(has_text=re.compile(r"\b1 label ")).wait_for()
        page.keyboard.press("s")
        wait_until(lambda: len(journal(page_folder)) == 4)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.reload()
        page.locator("#said").filter(has_text=re.compile(r"\b1 label ")).wait_for()
    assert [one["grade"] for one in journal(page_folder)] == [2, 0, None, "skip"]
