"""Every estimator with every scheduler and budget, and reformulators in turn: none pays for scores and ignores them."""

import importlib.util
import re
import sys
from itertools import product
from typing import Any

import pytest

from experiments.config.options import presets
from experiments.config.paths import PROJECT_ROOT

_SPEC: Any = importlib.util.spec_from_file_location("combinations", PROJECT_ROOT / "scripts" / "combinations.py")
sys.modules["combinations"] = combinations = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(combinations)
names = combinations.names
GROUPS = ("estimator", "scheduler", "budget")


@pytest.fixture(scope="module")
def table() -> list[Any]:
    return list(combinations.cells(in_turn=True))


def test_no_combination_pays_for_scores_and_ignores_them_in_silence(table: list[Any]) -> None:
    estimators, reformulators = (len(names(group)) for group in ("estimator", "reformulator"))
    assert len({(*cell[:2], cell.budget) for cell in table}) == len([*product(*map(names, GROUPS))])
    assert len({(cell.estimator, cell.reformulator) for cell in table}) == estimators * reformulators
    assert len({(cell.scheduler, cell.reformulator) for cell in table}) == len(names("scheduler")) * reformulators
    assert [cell for cell in table if cell.kind == combinations.BROKEN] == []


def test_a_refusal_names_a_preset_that_works(table: list[Any]) -> None:
    refused = [cell for cell in table if cell.kind == combinations.REFUSED]
    assert {cell.scheduler for cell in refused if cell.estimator == "knockout"} == {*names("scheduler")} - {"windows"}
    kinds = {cell[:4]: cell.kind for cell in table}
    for cell in refused:
        named = re.search(r"take scheduler=(\w+), or choose experiment=(\w+)$", cell.why)
        assert named
        chosen = presets()[named[2]].chosen
        assert chosen == {"estimator": cell.estimator, "scheduler": named[1]}
        assert kinds[(*chosen.values(), cell.reformulator, "unlimited")] == combinations.WORKS


def test_the_page_is_up_to_date(table: list[Any]) -> None:
    committed = (PROJECT_ROOT / combinations.PAGE).read_text(encoding="utf-8")
    assert committed == combinations.page(table), "run python scripts/combinations.py"
