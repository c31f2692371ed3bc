"""ragtune gate: a run replaces another only if it loses little and costs no more."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from experiments.compare.gate import FINE, UNDECIDED, WORSE
from ragtune.cli.main import main


def test_the_exit_code_is_the_verdict_and_the_line_gives_the_reason(
    two_runs: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fixed, ours = str(two_runs.fixed), str(two_runs.ours)
    assert main(["gate", fixed, ours]) == FINE
    assert capsys.readouterr().out.startswith("fine: nDCG@10 +0.0")
    junit = tmp_path / "gate.xml"
    assert main(["gate", ours, fixed, "--max-rise", "9", "--junit", str(junit)]) == WORSE
    out = capsys.readouterr().out
    assert out.startswith("worse: nDCG@10 -0.0")
    assert "to clear an equal run takes about" in out
    suite = ElementTree.parse(junit).getroot()  # noqa: S314  # we wrote it
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    assert suite[0].find("failure").get("message") in out
    assert main(["gate", ours, fixed, "--max-rise", "9", "--max-loss", "0.04"]) == UNDECIDED
    assert capsys.readouterr().out.startswith("cannot tell: ")


def test_a_rise_of_cost_is_worse_however_good_the_quality(
    two_runs: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gate", str(two_runs.ours), str(two_runs.fixed), "--max-loss", "1"]) == WORSE
    assert "allowed is a rise of 0%" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--measure", "MAP"], "--measure MAP: run fixed has nDCG@10, RR@10, AP, R@100"),
        (["--unit", "joules"], "--unit joules: run fixed was charged no joules"),
        (["--max-loss", "-1"], "--max-loss"),
    ],
)
def test_what_cannot_be_judged_is_refused(
    two_runs: SimpleNamespace, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["gate", str(two_runs.fixed), str(two_runs.ours), *options]) == 2
    out, err = capsys.readouterr()
    assert (out, message in err) == ("", True)
