"""ragtune drift on a log of requests, and what it and ragtune serve refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ragtune.cli.main import main

TEXTS = ["Ships have sails.", "Statins lower cholesterol.", "Aspirin thins blood.", "Cholesterol is a lipid."]


def log_of(file: Path, *grades: list[int]) -> str:
    requests = [{"query": f"what is lipid {at}", "documents": TEXTS} for at in range(3)]
    given = [{**request, "grades": one} for request, one in zip(requests, grades, strict=False)]
    lines = map(json.dumps, [*given, *requests[len(given) :]])
    file.write_text("\n".join(lines), encoding="utf-8")
    return str(file)


def test_each_type_is_compared_with_float32(
    tiny_cross_encoder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    log = log_of(tmp_path / "log.jsonl", [0, 0, 0, 2], [0, 0, 0, 0])
    assert main(["drift", "--model", tiny_cross_encoder, "--log", log, "--dtype", "int8", "bfloat16"]) == 0
    out = capsys.readouterr().out
    assert f"{tiny_cross_encoder}: 3 requests, 12 documents\n" in out
    rows = {name: cells.split() for name, cells in re.findall(r"^(\S.*?) {2,}(.*)$", out, flags=re.MULTILINE)}
    assert re.search(r"^ +fp32 +int8 +bfloat16$", out, flags=re.MULTILINE)
    assert {name: len(cells) for name, cells in rows.items()} == {
        "seconds / 100 documents": 3,
        "rank correlation": 2,
        "top-10 overlap": 2,
        "largest score change": 2,
        "nDCG@10, 1 requests": 3,
    }
    assert rows["top-10 overlap"] == ["1.000", "1.000"]  # of four documents
    assert all(0.0 <= float(change) < 0.02 for change in rows["largest score change"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dtype", "fp8"], "dtype='fp8': allowed are fp32, bfloat16, int8, auto"),
        (["--dtype", "fp32"], "--dtype fp32: means fp32 here; allowed are bfloat16, int8"),
        (["--dtype", "int8", "--max-docs", "3"], "no request fits into --max-docs 3"),
        (["--dtype", "int8", "--log", "none.jsonl"], "none.jsonl: cannot be read"),
        (["--dtype", "int8"], "grades of 4 documents: allowed are 4 numbers"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    log = log_of(tmp_path / "log.jsonl", [1, 0])
    assert main(["drift", "--model", "any", "--log", log, *options]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "any", "--dtype", "fp8"], "reranker dtype='fp8': allowed are fp32, bfloat16, int8, auto"),
        (["--model", "any", "--backend", "tpu"], "reranker backend='tpu': allowed are torch, onnx"),
        (["--model", "http://localhost:9", "--dtype", "int8"], "--dtype: allowed where --model is a model, not an"),
        (["--dtype", "int8"], "--dtype: allowed with --model only"),
    ],
)
def test_serve_refuses_types_that_a_model_does_not_have(
    capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["serve", "--port", "0", "--store", "memory", *options]) == 2
    assert message in capsys.readouterr().err
