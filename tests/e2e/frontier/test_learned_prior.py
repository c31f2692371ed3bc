"""python scripts/learned_prior.py: from collections to page, table and pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import yaml

SMALL = {
    "collections": [
        {"name": name, "group": name, "overrides": ["dataset=demo", f"retrieval.original_query_depth={depth}"]}
        for name, depth in (("fifteen", 15), ("twelve", 12))
    ],
    "policies": [
        {"name": "fixed", "label": "fixed depth", "kind": "incumbent", "overrides": ["experiment=fixed_depth"]},
        {"name": "default", "label": "the default", "kind": "ours", "overrides": ["experiment=uncertainty"]},
    ],
    "budgets": [5],
    "measures": ["nDCG@10"],
    "traces": {"budget": 5},
    "resamples": 50,
    "permutations": 99,
    "jobs": 1,
    "queries": 20,
}


def test_the_command_compares_learned_priors_with_the_prior_and_its_copy(
    run_here: Callable[..., SimpleNamespace], tmp_path: Path
) -> None:
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(SMALL))
    arguments = ("--config=small.yaml", "--policies=default", "--out=out")
    ended = run_here(*arguments, script="scripts/learned_prior.py", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert ended.lines == ["out/learned_prior.md"]
    made = sorted(file.name for file in (tmp_path / "out").iterdir() if file.is_file())
    assert made == ["learned_prior.csv", "learned_prior.default.png", "learned_prior.md"]
    table = pd.read_csv(tmp_path / "out" / "learned_prior.csv")
    assert set(table["learned_from"]) == {"others", "10", "nothing"}
    assert set(table["budget"]) == {5, 10, 20}
    assert table[table["learned_from"] == "10"]["queries"].max() == 10
    assert ((table["low"] <= table["difference"] + 1e-9) & (table["difference"] <= table["high"] + 1e-9)).all()
    assert set(table["against"]) == {"prior", "copy"}
    assert (table["p_holm"].dropna() >= table["p"].dropna()).all()


def test_a_policy_that_the_study_lacks_is_named(run_here: Callable[..., SimpleNamespace], tmp_path: Path) -> None:
    ended = run_here("--config=demo", "--policies=nonsense", script="scripts/learned_prior.py", cwd=tmp_path)
    assert ended.code == 2
    assert "'nonsense'" in ended.err
    assert list(tmp_path.iterdir()) == []
