"""ragtune advise: what it writes, whether what is to be copied runs and the advice holds, what is asked of a model."""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from web_pages import NEEDS_CHROMIUM, browser_page

from experiments.advise.choose import bounds, choose, options_of
from experiments.advise.options import CANDIDATES
from experiments.advise.replays import Replays, replay_all
from experiments.commands import advise
from experiments.config.compose import compose
from experiments.replay.build import session_for
from experiments.report.prices import Prices
from ragtune.cli.commands import serve
from ragtune.core.errors import ConfigError
from ragtune.facade.advice import advised
from ragtune.facade.reranker import BudgetedReranker
from ragtune.testing import make_context

SHARED = Path(__file__).parents[3] / "shared"
DATA = SHARED / "data"
PRICES = "usd_per_doc: 0.00002\nms_per_doc: 10\nms_per_call: 20\n"

needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the collections beside the checkout (../shared) are absent"
)


def call(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    advise.add_arguments(parser)
    return advise.run(parser.parse_args(arguments, argparse.Namespace(command="ragtune advise")))


def served(line: str) -> argparse.Namespace:
    """The flags as the server's own parser understands them."""
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    words = shlex.split(line, comments=True)
    assert words[:2] == ["ragtune", "serve"]
    return parser.parse_args(words[2:])


@pytest.fixture(scope="module")
def advice(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The advice on the shipped collection, with prices."""
    folder = tmp_path_factory.mktemp("advice")
    (folder / "prices.yaml").write_text(PRICES)
    options = ["--prices", str(folder / "prices.yaml"), "--traffic", "1000", "--out", str(folder / "out")]
    assert call("dataset=demo", "dataset.every=2", "--jobs", "1", *options) == 0
    return SimpleNamespace(folder=folder / "out", said=json.loads((folder / "out" / "advice.json").read_text()))


def test_what_it_recommends_keeps_what_was_wanted_and_says_what_a_month_saves(advice: SimpleNamespace) -> None:
    said, best, full = advice.said, advice.said["recommended"], advice.said["everything"]
    assert best["kept"]["low"] >= said["quality"] == 0.95
    assert best["cost"]["docs"] < 0.6 * full["cost"]["docs"]
    assert said["saved_a_month"]["usd"] == pytest.approx(1000 * (full["cost"]["usd"] - best["cost"]["usd"]))
    assert full["cost"]["usd"] == pytest.approx(0.00002 * full["cost"]["docs"])
    assert best["cost"]["ms"] == pytest.approx(10 * best["cost"]["docs"] + 20 * best["cost"]["calls"])
    assert full["cost"]["calls"] == 1.0  # in one call, not as it was replayed
    cheaper = [row for row in said["options"] if row["cost"]["usd"] < best["cost"]["usd"]]
    assert all(row["kept"]["low"] < 0.95 for row in cheaper)
    (step,) = [rung for rung in said["ladder"] if rung["is_next"]]
    assert step["cost"] > best["cost"]["usd"]
    assert said["question"] is None or said["question"]["more_queries"] >= 1


def test_the_program_to_copy_runs_and_the_server_knows_its_flags(advice: SimpleNamespace) -> None:
    ran = subprocess.run([sys.executable, "-c", advice.said["use"]["facade"]], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "[1, 0, 2]\n"), ran.stderr
    assert Path(served(advice.said["use"]["serve"]).advice) == advice.folder / "advice.json"


def test_the_library_ranks_as_the_replay_did(advice: SimpleNamespace) -> None:
    """So what is found by replay, candidates compared by their own terms, is what a program gets."""
    session = session_for(compose(["tracking=none", *shlex.split(advice.said["use"]["run"])[2:]]))
    table, retriever = session.rerankers["default"].table, session.parts["retriever"]
    best = advice.said["recommended"]
    for query_id in session.dataset.judged[:4]:
        query = session.dataset.queries[query_id]
        found = retriever.retrieve(make_context(query=query, query_id=query_id), 100)
        ids = {document.content: document.id for document in found}
        library = BudgetedReranker(
            lambda _, texts, q=query_id, ids=ids: [*table.scores(q, [ids[text] for text in texts]).values()],
            docs=best["budget"],
            policy=best["policy"],
            batch_size=best["batch_size"],
            trust=best["trust"],
        )
        ranking = library.rank(query, [one.content for one in found], [one.score for one in found])
        replayed = session.controller.run(query, query_id=query_id).ranking
        assert [found[one.index].id for one in ranking] == list(replayed)


@pytest.fixture(scope="module")
def recorded_scores() -> dict[str, dict[str, float]]:
    session = session_for(compose(["dataset=demo", "tracking=none"]))
    table = session.rerankers["default"].table
    return {query_id: dict(table.of_query(query_id)) for query_id in session.dataset.queries}


@pytest.mark.parametrize("reranker", ["negated", "random", "useful"])
def test_without_judgments_a_reranker_that_contradicts_or_ignores_the_first_stage_is_advised_against(
    recorded_scores: dict[str, dict[str, float]], reranker: str, tmp_path: Path
) -> None:
    draws, rows = np.random.default_rng(0), []
    for query_id, scores in recorded_scores.items():
        given = {"negated": lambda score: 1.0 - score, "random": lambda _: draws.random(), "useful": float}[reranker]
        rows += [f"{query_id} Q0 {doc_id} 1 {given(score)} r\n" for doc_id, score in scores.items()]
    (tmp_path / "scores.run").write_text("".join(rows))
    table = [f"reranker.scores={tmp_path / 'scores.run'}", "reranker.scale=identity"]
    shallow = ["dataset=demo", "dataset.split=null", "retrieval.original_query_depth=50"]
    assert call(*shallow, *table, "--jobs", "1", "--out", str(tmp_path)) == 0
    said, page = json.loads((tmp_path / "advice.json").read_text()), (tmp_path / "advice.html").read_text()
    found = said["source_agreement"]
    assert found["queries"] == len(recorded_scores)
    assert found["correlation"]["low"] < found["correlation"]["value"] < found["correlation"]["high"]
    assert f"(correlation {found['correlation']['value']:+.2f}" in page
    is_useful = reranker == "useful"
    assert (said["trust"], said["recommended"]["budget"] > 0) == (0.5 if is_useful else 0.0, is_useful)
    assert ("Do not rerank until judgments say otherwise" in page) is not is_useful
    assert ("If you want the full reranking" in page) is is_useful
    if is_useful:
        assert advised(tmp_path / "advice.json")["trust"] == 0.5
        return
    with pytest.raises(ConfigError, match="is not to rerank: keep the first stage's order"):
        advised(tmp_path / "advice.json")


@pytest.mark.browser
@NEEDS_CHROMIUM
def test_the_page_needs_nothing_else_and_fits_a_telephone(advice: SimpleNamespace) -> None:
    requests: list[str] = []
    with browser_page(420) as page:
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address := (advice.folder / "advice.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 420
        assert page.locator("figure svg").bounding_box()["width"] > 300
        assert advice.said["recommended"]["policy"] in page.locator(".do").text_content()
        # No snippet and no table of figures needs scrolling, and each snippet can be copied.
        overflow = "nodes => nodes.filter(node => node.scrollWidth > node.clientWidth + 1).length"
        assert page.locator("pre, .scroll").evaluate_all(overflow) == 0
        page.locator(".copied button").first.click()
        page.get_by_text("Copied", exact=True).or_(page.get_by_text("Selected", exact=True)).wait_for()
        assert page.locator(".copied").count() == page.locator("pre").count() == 3
        # The legend stands below the curves.
        legend, axes = (page.locator(f"figure svg #{part}").bounding_box() for part in ("legend_1", "patch_2"))
        assert legend["y"] > axes["y"] + axes["height"]
    assert requests == [address]


FEW = tuple(one for one in CANDIDATES if one.name in ("fixed_depth", "uncertainty/5", "settled/5"))


def replayed(*overrides: str, queries: int) -> Replays:
    config = compose(list(overrides))
    config["dataset"]["sample"] = {"queries": queries, "seed": 0}
    return replay_all(config, ["nDCG@10"], 1, lambda done, total: None, FEW)


def recorded(name: str, scores: str, scale: str) -> list[str]:
    runs, table = f"retriever.paths={DATA}/{name}/runs/bm25.run", f"reranker.scores={DATA}/{name}/scores/{scores}.run"
    return ["dataset=beir", f"dataset.path={DATA}/{name}", "retriever=runs", runs, table, f"reranker.scale={scale}"]


@pytest.mark.parametrize(
    ("overrides", "queries"),
    [
        (["dataset=demo"], 50),
        pytest.param(recorded("dl19", "monot5-base", "log_prob"), 43, marks=[pytest.mark.shared, needs_shared]),
    ],
    ids=["demo", "dl19"],
)
def test_advice_found_on_half_of_the_queries_holds_on_the_other_half(overrides: list[str], queries: int) -> None:
    options = options_of(replayed(*overrides, queries=queries), Prices(), "docs")
    draws, kept = np.random.default_rng(1), 0
    for _ in range(40):
        one, other = np.array_split(draws.permutation(len(options.values)), 2)
        known = bounds(options.of(one), resamples=300, level=0.95, seed=1)
        chosen = choose(options.of(one), known, 0.95)
        wanted = 0.95 if known.target == options.full else 1.0
        kept += options.values[other, chosen].mean() >= wanted * options.values[other, known.target].mean()
    assert kept >= 34
    assert not options.options[choose(options, bounds(options, resamples=300, level=0.95, seed=1), 0.95)].is_full


def test_a_service_is_asked_once_a_query_after_its_price_was_said_and_agreed_to(
    llm_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAGTUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.stdin", open("/dev/null"))  # noqa: PTH123, SIM115
    out = tmp_path / "out"
    url = f"reranker.url={llm_server.rerank_url('cohere')}"
    asked = ["reranker=http", url, "reranker.model=m", "reranker.usd_per_search_unit=0.002", "dataset.split=null"]
    asked.append("retrieval.original_query_depth=10")
    options = ["--max-queries", "6", "--jobs", "1", "--out", str(out)]
    with pytest.raises(ConfigError, match="--yes"):
        call(*asked, *options)
    assert "to score: 60 pairs of 6 queries; 6 calls, " in (said := capfd.readouterr().err)
    assert ", $0.0120, " in said  # six queries, one search unit each
    terminal = SimpleNamespace(isatty=lambda: True, readline=lambda: "n\n")
    monkeypatch.setattr("sys.stdin", terminal)
    with pytest.raises(ConfigError, match="nothing was scored"):
        call(*asked, *options)
    with pytest.raises(ConfigError, match="--max-queries=4: allowed"):
        call(*asked, "--max-queries", "4", "--out", str(out), "--yes")
    assert llm_server.requests == []
    assert not out.exists()
    # Ten candidates always are the top 10, so the queries tell nothing: that alone is said, and the number needed.
    for _ in range(2):  # what was paid for is not paid for again
        with pytest.raises(ConfigError, match=r"all 6 queries say the same .*; at least 14 like these .*, 8 more$"):
            call(*asked, *options, "--yes")
        assert len(llm_server.requests) == 6
    assert not (out / "advice.json").exists()


def test_the_commands_to_copy_replay_the_sample_with_the_scores_of_the_service(
    llm_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, main: Callable[..., SimpleNamespace]
) -> None:
    out = tmp_path / "out"
    url = f"reranker.url={llm_server.rerank_url('cohere')}"
    asked = ["reranker=http", url, "reranker.model=m", "reranker.usd_per_search_unit=0.002"]
    options = ["--max-queries", "6", "--jobs", "1", "--unit", "docs", "--quality", "0.5", "--out", str(out)]
    assert call(*asked, "seed=3", "retrieval.original_query_depth=15", *options, "--yes") == 0
    said, requests = json.loads((out / "advice.json").read_text()), len(llm_server.requests)
    assert "+dataset.sample.seed=3" in said["use"]["run"]
    ended = main(*shlex.split(said["use"]["run"])[2:], f"hydra.run.dir={tmp_path / 'run'}")
    assert ended.code == 0, ended.err
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["measures"]["nDCG@10"] == pytest.approx(said["recommended"]["quality"], abs=1e-12)
    assert summary["cost_per_query"]["charged"]["docs"] == said["recommended"]["cost"]["docs"]
    assert len(llm_server.requests) == requests
    if said["recommended"]["budget"]:
        assert llm_server.rerank_url("cohere") in said["use"]["serve"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["scheduler=greedy"], "'scheduler=greedy': allowed are options of dataset"),
        (["--quality", "1.5"], "--quality 1.5: allowed is a share above 0 and up to 1"),
        (["--unit", "usd"], "--unit usd: nothing has a price in it"),
        (["--prices", "PRICES"], "usd_per_page=1.*allowed names are usd_per_doc"),
    ],
)
def test_bad_input_is_named_before_anything_is_written(arguments: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text("usd_per_page: 1\n")
    given = [str(tmp_path / "prices.yaml") if one == "PRICES" else one for one in arguments]
    with pytest.raises(ValueError, match=said):
        call(*given, "--out", str(tmp_path / "out"), "--jobs", "1")
    assert not (tmp_path / "out").exists()
