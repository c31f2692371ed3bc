"""The summary: totals, means, counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.evaluate.summary import Summary
from experiments.publish.files import read_summary, write_summary
from ragtune.core.errors import DatasetError


def test_the_file_holds_every_field_in_order_and_is_read_back(
    make_summary: Callable[..., Summary], tmp_path: Path
) -> None:
    means = {"measures": {"AP": 0.25}, "difference": {"AP": 0.125}, "interval": {"AP": [0.0, 0.25]}}
    figures = {**means, "p": {"AP": 0.5}, "p_holm": {"AP": 1.0}}
    against = {"full reranking": {"docs_per_query": 9.0, **figures, "agreement": {"overlap": 0.5, "rbo": 0.75}}}
    rewrites = {"per_query": 1.0, "new_docs_per_rewrite": 7.2}
    trust = {"value": 0.5, "correlation": 0.25, "error": 0.05, "queries": 43, "docs_per_query": 20}
    changes: list[dict[str, Any]] = [{}, {"baselines": against}, {"rewrites": rewrites}, {"trust": trust}]
    for summary in (make_summary(**change) for change in changes):
        write_summary(tmp_path, summary)
        assert read_summary(tmp_path) == summary
        written = json.loads((tmp_path / "summary.json").read_text())
        optional = {name: getattr(summary, name) for name in ("baselines", "rewrites", "trust")}
        fields = [name for name in Summary.model_fields if optional.get(name, True)]
        assert list(written) == list(fields)
        assert json.dumps(written) == json.dumps(summary.plain(), allow_nan=False)
    # Amounts that are counts stay whole numbers.
    assert json.dumps(written["cost"]["charged"]).startswith(
        '{"docs": 50, "calls": 12, "tokens": 1824, "latency_ms": 312.0'
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: content["cost"].pop("actual"), r"cost\.actual is missing"),
        (lambda content: content["measures"].clear(), r"measures is \{\}"),
    ],
)
def test_a_damaged_summary_is_refused_by_the_name_of_its_field(
    make_summary: Callable[..., Summary], tmp_path: Path, change: Callable[[dict], object], said: str
) -> None:
    content = make_summary().plain()
    change(content)
    (tmp_path / "summary.json").write_text(json.dumps(content))
    with pytest.raises(DatasetError, match=rf"summary\.json' is damaged: {said}"):
        read_summary(tmp_path)


def test_what_a_later_version_has_written_is_kept(make_summary: Callable[..., Summary], tmp_path: Path) -> None:
    content = make_summary().plain() | {"new": [1]}
    (tmp_path / "summary.json").write_text(json.dumps(content))
    summary = read_summary(tmp_path)
    assert summary.tracked_as("r").plain() == content | {"mlflow_run_id": "r"}
