"""What a run reports of its parts: a budget that is too small for them, scores without use, what rewrites find."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from experiments.publish.described import metrics
from experiments.publish.files import read_summary

Run = Callable[..., SimpleNamespace]


def test_new_documents_of_a_rewrite_are_printed_and_stand_in_the_summary_and_among_the_metrics(main: Run) -> None:
    assert "rewrites" not in _ran(main, "budget=5", "experiment=fixed_depth")
    ended = _ran(main, "budget=5", "experiment=fixed_depth", "reformulator=rm3")
    assert ended["rewrites"] == {"per_query": 1.0, "new_docs_per_rewrite": 8.82}
    assert "rewrites: 1.0 a query, 8.8 new documents a rewrite" in ended["out"]
    summary = read_summary(Path("run"))
    assert summary is not None
    logged = {metric.key: metric.value for metric in metrics(summary, Path("run/curve.csv"))}
    assert (logged["rewrites_per_query"], logged["new_docs_per_rewrite"]) == (1.0, 8.82)


def _ran(main: Run, *words: str) -> dict[str, Any]:
    ended = main(*words, "hydra.run.dir=run")
    assert ended.code == 0, ended.err
    return {**json.loads(Path("run/summary.json").read_text()), "out": ended.out}
