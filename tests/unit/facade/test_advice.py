"""What ragtune advise has written is what the library and the server take."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from ragtune import BudgetedReranker
from ragtune.cli.commands.ranker import add_rerank_options, make_ranker
from ragtune.core.errors import ConfigError
from ragtune.facade.advice import advised
from ragtune.services import rerank


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "advice.json"
    option = {"label": "early stop", "policy": "early_stop", "batch_size": 2, "budget": 3, "trust": 0.75}
    found.write_text(json.dumps({"dataset": "demo/test", "recommended": option}), encoding="utf-8")
    return found


def test_a_reranker_takes_what_is_recommended(file: Path) -> None:
    calls: list[int] = []

    def score(query: str, texts: list[str]) -> list[float]:
        calls.append(len(texts))
        return [0.5] * len(texts)

    ranking = BudgetedReranker(score, **advised(file)).rank("tea", [f"text {i}" for i in range(9)])
    assert (calls, ranking.cost.docs) == ([2, 1], 3)


def test_interpolated_fixed_depth_takes_the_weight_that_is_recommended(tmp_path: Path) -> None:
    file = tmp_path / "advice.json"
    option = {"policy": "interpolated_fixed_depth", "batch_size": None, "budget": 3, "trust": None, "weight": 1.0}
    file.write_text(json.dumps({"recommended": option}), encoding="utf-8")
    reranker = BudgetedReranker(lambda query, texts: [0.1, 0.5, 0.9][: len(texts)], **advised(file))
    ranking = reranker.rank("tea", ["a", "b", "c", "d"], [4.0, 3.0, 2.0, 1.0])
    assert [hit.index for hit in ranking] == [0, 1, 2, 3]
    assert (ranking.cost.docs, ranking.cost.calls) == (3, 1)


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        ([], {"policy": "early_stop", "batch_size": 2, "trust": 0.75, "docs": 3}),
        (
            ["--docs", "7", "--policy", "settled", "--trust", "0.2"],
            {"policy": "settled", "batch_size": 2, "trust": 0.2, "docs": 7},
        ),
    ],
)
def test_a_server_takes_it_and_options_come_before_it(
    file: Path, monkeypatch: pytest.MonkeyPatch, said: list[str], taken: dict[str, Any]
) -> None:
    monkeypatch.setattr(rerank, "RerankServer", lambda *_, **options: options)
    parser = argparse.ArgumentParser()
    add_rerank_options(parser)
    arguments = parser.parse_args(["--model", "http://127.0.0.1:9", "--advice", str(file), *said])
    options = make_ranker(argparse.Namespace(**vars(arguments), timeout=1.0, max_batch=100))
    assert {"docs": options["budget"]["docs"]} | {name: options.get(name) for name in taken if name != "docs"} == taken


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        ("{", "not what ragtune advise writes"),
        ('{"recommended": {"policy": "settled"}}', "not what ragtune advise writes"),
        ('{"recommended": {"policy": "fixed_depth", "batch_size": null, "budget": 0}}', "is not to rerank"),
    ],
)
def test_a_file_that_is_no_advice_is_refused_by_name(tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "some.json"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=f"some.json.*{message}"):
        advised(file)
