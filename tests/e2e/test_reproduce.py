"""ragtune reproduce: published figures beside ours, and what makes a verdict wrong."""

from __future__ import annotations

import shutil
from hashlib import sha256
from pathlib import Path

import pytest
import yaml

from experiments.config.paths import SHIPPED
from ragtune.cli.main import main

DATA = Path(__file__).parents[3] / "shared" / "data"
SHARED = [pytest.mark.shared, pytest.mark.skipif(not DATA.is_dir(), reason="the collections are not at ../shared")]
INPUTS = ("corpus.jsonl", "scores/minilm.parquet")
DEMO = ["dataset=beir", "dataset.path=$data/demo", "reranker.scores=$data/demo/scores/minilm.parquet"]


@pytest.fixture
def run(tmp_path, capsys):
    """Runs a paper with a count that needs no data, changed by keywords, and a measure of the demo's first stage."""
    file = tmp_path / "mine.yaml"
    shutil.copytree(SHIPPED, tmp_path / "data" / "demo")
    inputs = {f"demo/{name}": sha256((SHIPPED / name).read_bytes()).hexdigest() for name in INPUTS}

    def ended(*words: str, **changed: object) -> tuple[int, str]:
        settings = {"sliding": ["reranker=simulated", "experiment=sliding"], "demo": [*DEMO, "budget=zero"]}
        calls = {"cell": "calls", "table": "1", "published": 9, "items": 100, "run": "sliding", "value": "calls"}
        measure = {"cell": "quality", "table": "2", "published": [0.1, 0.9], "run": "demo"}
        paper = {"title": "A_B", "source": "a page", "inputs": inputs, "settings": settings}
        file.write_text(yaml.safe_dump({**paper, "cells": [calls | changed, measure]}), encoding="utf-8")
        return main(["reproduce", str(file), "--format", "markdown", *words]), "".join(capsys.readouterr())

    return ended


@pytest.mark.parametrize(
    ("cell", "code", "verdict"),
    [
        ({"published": 12}, 1, "12 | 9 | -3.0000 | different"),
        ({"published": [10, 12], "expect": "explained", "within": 1, "why": "known"}, 0, "explained | known"),
        ({"published": [10, 12], "expect": "explained", "within": 0.5, "why": "known"}, 1, "| different"),
        ({"published": 12, "expect": "different", "within": 2, "why": "not known"}, 1, "| different"),
        ({"published": 12, "expect": "explained", "within": 3, "why": " "}, 2, "cell 'calls' needs why"),
        ({"published": "not read", "expect": "not reproducible here", "why": "x"}, 2, "cell 'calls' has no figure"),
        ({"published": [12, 6]}, 2, "the range [12.0, 6.0] does not ascend"),
        ({"value": "windows", "against": "sliding"}, 2, "mine: no value of cell 'calls': could not convert"),
        ({"publishd": 1}, 2, "error: mine.yaml.cells.0.publishd=1: Unexpected keyword argument"),
    ],
)
def test_a_wrong_cell_makes_the_verdict_wrong(run, cell, code, verdict) -> None:
    found, text = run(**cell)
    assert (found, verdict in text) == (code, True)


def test_a_changed_byte_of_an_input_is_different_and_a_missing_file_is_named(run, tmp_path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    code, text = run("--data", str(data), "--out", str(out))
    assert (code, "2 equal" in text) == (0, True)
    assert "| quality (2) | 0.1 to 0.9 |" in (out / "README.md").read_text(encoding="utf-8")
    assert r"\caption{A\_B. Published figures: a page.}" in (out / "table.tex").read_text(encoding="utf-8")
    (data / "demo" / "corpus.jsonl").write_bytes((SHIPPED / "corpus.jsonl").read_bytes() + b" ")
    code, text = run("--data", str(data))
    assert (code, "different | input demo/corpus.jsonl has other bytes" in text) == (1, True)
    (data / "demo" / "corpus.jsonl").unlink()
    assert "not reproducible here | needs demo/corpus.jsonl" in run("--data", str(data))[1]
    assert run("--data", str(data / "nowhere")) == (2, f"error: --data '{data / 'nowhere'}' is no folder\n")


@pytest.mark.parametrize("words", [["blitzrank"], pytest.param(["anserini", "--data", str(DATA)], marks=SHARED)])
def test_call_counts_of_a_paper_need_no_data_and_quality_does(words, capsys) -> None:
    assert main(["reproduce", *words]) == 0
    assert main(["reproduce"]) == 0  # every paper can be read
    assert sum(int(line.split()[1]) for line in capsys.readouterr().out.splitlines() if " cells  " in line) >= 60
