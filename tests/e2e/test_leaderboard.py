"""The leaderboard: a stranger's package gets its line, cheats are refused, and the same inputs give the same bytes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import ROOT
from web_pages import NEEDS_CHROMIUM, browser_page

from ragtune.cli.main import main

PAGE = (ROOT / "docs" / "howto" / "leaderboard.md").read_text(encoding="utf-8")
CHEATS = """
class Honest:
    def rank(self, request):
        self.ids = [candidate.id for candidate in request.candidates]
        scores = request.score(request.affordable(self.ids))
        return sorted(scores, key=scores.get, reverse=True)

class Reads(Honest):
    def rank(self, request):
        open(SCORES, "rb")
        return super().rank(request)

class Copies(Honest):
    def rank(self, request):
        import os
        os.symlink(SCORES, "/tmp/scores-of-the-demo")

class Starts(Honest):
    def rank(self, request):
        import subprocess
        subprocess.run(["cat", SCORES])

class Notes(Honest):
    def rank(self, request):
        open("/tmp/notes-for-later", "a")

class Remembers(Honest):
    seen = 0
    def rank(self, request):
        Remembers.seen += 1
        return super().rank(request)[:: 1 if Remembers.seen % 2 else -1]

class Holds(Honest):
    held = None
    def rank(self, request):
        if self.held:
            self.held.score(self.ids[:1])
        self.held = request
        return super().rank(request)

class Overdraws(Honest):
    def rank(self, request):
        request.left = request.budget = 1000
        return super().rank(request)

class Recognises(Honest):
    def rank(self, request):
        return super().rank(request)[:: 1 if int(request.id[-1], 16) % 2 else -1]
"""
REFUSED = {
    "Reads": "it opened minilm.parquet",
    "Copies": "it opened minilm.parquet",
    "Starts": "it used subprocess.Popen",
    "Notes": "it wrote notes-for-later",
    "Remembers": "it remembers other queries",
    "Holds": "scores of a request that is closed",
    "Overdraws": "kept outside the policy, has 5 of 5 documents left",
    "Recognises": "it depends on ids",
}


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the record of fixed depth."""
    folder = tmp_path_factory.mktemp("board")
    assert (
        main(
            ["leaderboard", "run", "fixed_depth", "tourrank", "queries=4", "--date", "2026-11-28", "--out", str(folder)]
        )
        == 0
    )
    return folder


@pytest.mark.parametrize("cheat", REFUSED)
def test_a_cheat_is_refused_in_one_line(
    cheat: str, board: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    scores = ROOT / "ragtune" / "data" / "demo" / "scores" / "minilm.parquet"
    (tmp_path / "cheats.py").write_text(f"SCORES = {str(scores)!r}\n{CHEATS}")
    (tmp_path / "cheats-1.dist-info").mkdir()
    (tmp_path / "cheats-1.dist-info" / "METADATA").write_text("Name: cheats\nVersion: 1\n")
    names = "\n".join(f"{name} = cheats:{name}" for name in REFUSED)
    (tmp_path / "cheats-1.dist-info" / "entry_points.txt").write_text(f"[ragtune.policies]\n{names}\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["leaderboard", "run", cheat, "queries=4", "--out", str(board)]) == 2
    (error,) = re.findall(r"^error: .*", capfd.readouterr().err, re.MULTILINE)
    assert re.search(f"^error: policy '{cheat}'.*({REFUSED[cheat]})", error)
    assert not (board / f"{cheat}.json").exists()


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the documentation, word for word, installed into a folder."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("target")
    for name, text in re.findall(r'```\w+ title="halves/([^"]+)"\n(.*?)```', PAGE, re.DOTALL):
        (source / name).write_text(text)
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "-t", str(target)]
    subprocess.run([*command, str(source)], check=True)
    return target


def test_a_strangers_package_gets_its_line_twice_with_the_same_bytes(
    halves: Path, board: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(halves)
    other = tmp_path / "again"
    run = ["leaderboard", "run", "halves", "tourrank", "queries=4", "--date", "2026-11-28", "--out"]
    for folder in (board, other):
        assert main([*run, str(folder)]) == 0
        assert main(["leaderboard", "show", str(folder)]) == 0
    lines = [
        line
        for line in capsys.readouterr().out.splitlines()
        if re.search(r"\| halves \(halves\) \|.*\| outside \| halves 0\.1\.0 2026-11-28 \w{12} \|", line)
    ]
    assert len(lines) == 6  # two boards of three units
    for name in ("halves.json", "tourrank.json", "fixed_depth.json", "index.html"):
        assert (board / name).read_bytes() == (other / name).read_bytes()


@NEEDS_CHROMIUM
def test_the_committed_page_sorts_filters_and_fits_a_telephone() -> None:
    with browser_page(width=390) as page:
        page.goto((ROOT / "results" / "leaderboard" / "index.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        shown = page.locator("section tbody tr:visible td:nth-child(2)")
        assert shown.count() >= 15
        page.select_option("#sort", "policy")
        assert (names := shown.all_inner_texts()) == sorted(names, key=str.lower)
        page.fill("#name", "tour")
        assert shown.all_inner_texts() == ["TourRank"]
        page.select_option("#unit", "Budgets in calls")
        assert shown.all_inner_texts() == ["TourRank"]
