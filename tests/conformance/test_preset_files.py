"""The files of six committed presets are the pinned ones: the demo at a budget of 20 documents.

Texts are compared byte for byte, numbers to six decimals: the last bits depend on the machine's linear algebra.
``PIN=1 python -m pytest tests/conformance/test_preset_files.py`` pins the files of today in ``preset_files.json``.
"""

import gzip
import hashlib
import json
import os
import re
from pathlib import Path

import pandas as pd

from experiments.cli import experiment
from experiments.config.compose import compose

PINNED = Path(__file__).with_name("preset_files.json")
PRESETS = ("fixed_depth", "uncertainty", "settled", "gar", "tourrank", "knockout")


def digests(folder: Path) -> dict[str, str]:
    texts = {name: (folder / name).read_text(encoding="utf-8") for name in ("run.trec", "curve.csv")}
    texts["traces.jsonl.gz"] = gzip.decompress((folder / "traces.jsonl.gz").read_bytes()).decode("utf-8")
    texts["per_query.parquet"] = pd.read_parquet(folder / "per_query.parquet").to_csv()
    return {name: hashlib.sha256(with_six_decimals(text).encode()).hexdigest() for name, text in texts.items()}


def with_six_decimals(text: str) -> str:
    number = r"-?\b\d+(?:\.\d+(?:e[-+]?\d+)?|e[-+]?\d+)\b"
    return re.sub(number, lambda found: repr(round(float(found[0]), 6) + 0.0), text)


def test_the_files_of_presets_are_those_that_are_pinned(tmp_path: Path) -> None:
    found = {}
    for preset in PRESETS:
        options = [f"experiment={preset}", "budget=20", "tracking=none", "verbosity=0"]
        folder = tmp_path / preset
        folder.mkdir()
        experiment.run_experiment(compose(options), folder, options)
        found[preset] = digests(folder)
    if "PIN" in os.environ:
        PINNED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    assert found == json.loads(PINNED.read_text(encoding="utf-8"))


def test_a_change_beyond_six_decimals_is_none() -> None:
    assert with_six_decimals('{"a-1":26.93999999999999,"b":-1e-17}') == with_six_decimals('{"a-1":26.94,"b":0.0}')
    assert with_six_decimals("0.123457") != with_six_decimals("0.123456")
