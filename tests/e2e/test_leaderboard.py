"""The leaderboard: a stranger's package gets its line, cheats are refused, and the same inputs give the same bytes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import ROOT
from web_pages import NEEDS_CHROMIUM, browser_page

from experiments.leaderboard.child import guard
from ragtune.cli.main import main

PAGE = (ROOT / "docs" / "howto" / "leaderboard.md").read_text(encoding="utf-8")
HONEST = """
class Policy:
    seen, held = 0, None

    def rank(self, request):
        {cheat}
        ids = [candidate.id for candidate in request.candidates]
        scores = request.score(request.affordable(ids))
        ranking = sorted(scores, key=scores.get, reverse=True)
        return ranking{end}
"""
SCORES = ROOT / "ragtune" / "data" / "demo" / "scores" / "minilm.parquet"
CHEATS = {
    f"open({str(SCORES)!r}, 'rb')": "it opened minilm.parquet",
    f"__import__('os').path.realpath = str; open({str(SCORES)!r}, 'rb')": "it opened minilm.parquet",
    f"__import__('builtins').type = lambda _: int; open({str(SCORES)!r}, 'rb')": "it opened minilm.parquet",
    f"import sys; sys.audit('open', 'x.py', '', None); open({str(SCORES)!r}, 'rb')": "it opened",
    f"import os; os.open({str(SCORES)[1:]!r}, 0, dir_fd=os.open('/', 0))": "it opened",
    f"__import__('os').symlink({str(SCORES)!r}, '/tmp/scores')": "it used os.symlink",
    "__import__('os').mkdir('/tmp/what-i-learned')": "it used os.mkdir",
    "__import__('ctypes').CDLL(None).open": "it used ctypes.dlsym",
    "__import__('_posixsubprocess').fork_exec()": "it used fork_exec",
    "request._exchange({'answer': 5})": "what it said is no list of ids",
    f"__import__('subprocess').run(['cat', {str(SCORES)!r}])": "it used subprocess.Popen",
    "__import__('socket').create_connection(('127.0.0.1', 9))": "it used socket.",
    "open('/tmp/notes-for-later', 'a')": "it wrote notes-for-later",
    "Policy.seen += 1": "it remembers other queries",
    "self.held and self.held.score([request.candidates[0].id]); self.held = request": "a request that is closed",
    "request.left = request.budget = 1000": "kept outside the policy, has 5 of 5 documents left",
    "Policy.seen = int(request.id, 16)": "it depends on ids",
}
"""What a policy does, and how it ends."""


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with records of two presets."""
    folder = tmp_path_factory.mktemp("board")
    words = ["leaderboard", "run", "fixed_depth", "gar", "queries=4", "--date", "2026-11-28"]
    assert main([*words, "--out", str(folder)]) == 0
    return folder


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheat_is_refused_in_one_line(
    cheat: str, board: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    end = "[:: 1 if self.seen % 2 else -1]" if "seen" in cheat else ""
    (tmp_path / "cheats.py").write_text(HONEST.format(cheat=cheat, end=end))
    (tmp_path / "cheats-1.dist-info").mkdir()
    (tmp_path / "cheats-1.dist-info" / "METADATA").write_text("Name: cheats\nVersion: 1\n")
    (tmp_path / "cheats-1.dist-info" / "entry_points.txt").write_text("[ragtune.policies]\ncheat = cheats:Policy\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["leaderboard", "run", "cheat", "queries=4", "--out", str(board)]) == 2
    (error,) = re.findall(r"^error: .*", capfd.readouterr().err, re.MULTILINE)
    assert re.match(f"error: policy 'cheat' .*{CHEATS[cheat]}", error)
    assert not (board / "cheat.json").exists()


@pytest.mark.parametrize("spelling", ["", "/", "./", "other/../"])
def test_a_closed_folder_beside_installed_code_has_no_other_spelling(spelling: str) -> None:
    hook, said = guard(["/site/ragtune/data"], ["/site"], 1), list[bytes]()
    for path in ("words.txt", f"{spelling}ragtune/data/qrels.tsv"):
        hook("open", (f"/site/{path}", "r", 0), write=lambda _, text: said.append(text), end=int)
    assert said == [b'{"cheat": "opened qrels.tsv"}\n']


def test_a_strangers_package_gets_its_line_twice_with_the_same_bytes(
    board: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The package of the documentation, word for word."""
    source, target, other = (tmp_path / name for name in ("source", "target", "other"))
    source.mkdir()
    for name, text in re.findall(r'```\w+ title="halves/([^"]+)"\n(.*?)```', PAGE, re.DOTALL):
        (source / name).write_text(text)
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "-t", str(target)]
    subprocess.run([*install, str(source)], check=True)
    monkeypatch.syspath_prepend(target)
    for folder in (board, other):
        words = ["leaderboard", "run", "halves", "gar", "queries=4", "--date", "2026-11-28"]
        assert main([*words, "--out", str(folder)]) == 0
        assert main(["leaderboard", "show", str(folder)]) == 0
    line = r"^\| \d \| halves \(halves\) \|.* outside \| 0\.1\.0 \w{8} 2026-11-28 \|$"
    assert len(re.findall(line, capsys.readouterr().out, re.MULTILINE)) == 6  # two boards of three units
    for name in ("halves.json", "gar.json", "fixed_depth.json", "index.html"):
        assert (board / name).read_bytes() == (other / name).read_bytes()
    assert "CPU ms" not in (board / "leaderboard.tex").read_text(encoding="utf-8")  # nor is the note on it


@NEEDS_CHROMIUM
def test_the_committed_page_sorts_filters_and_fits_a_telephone() -> None:
    with browser_page(width=390) as page:
        page.goto((ROOT / "results" / "leaderboard" / "index.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        shown = page.locator("section tbody tr:visible td:nth-child(2)")
        assert shown.count() >= 15
        for head, place in (("record", "last-child"), ("policy", "nth-child(2)")):
            page.select_option("#sort", head)
            texts = page.locator(f"section tbody tr:visible td:{place}").all_inner_texts()
            assert texts == sorted(texts, key=str.lower)
        heights = "[...document.querySelectorAll('.controls select, .controls input')].map(each => each.offsetHeight)"
        assert min(page.evaluate(heights)) >= 44  # a finger's
        page.fill("#name", "tour")
        page.select_option("#unit", "Budgets in calls")
        assert shown.all_inner_texts() == ["TourRank"]
