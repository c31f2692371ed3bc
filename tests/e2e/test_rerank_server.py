"""``ragtune serve --model`` with a real cross-encoder, as its page says."""

import json
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from llm_server import Fault
from patience import HANG_S, wait_until
from serve_process import serving, serving_here

from ragtune.cli.main import main
from ragtune.facade.reranker import BudgetedReranker

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "howto" / "rerank-server.md").read_text(encoding="utf-8")
SHELL = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL))
DOCUMENTS = ["Ships have sails.", "Statins lower cholesterol.", "Aspirin thins blood.", "Cholesterol is a lipid."]


@pytest.fixture(scope="module")
def pages(tiny_cross_encoder: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """The page's server, where there is no PostgreSQL, and the folder where it may keep data."""
    command = shlex.split(next(line for line in SHELL.splitlines() if line.startswith("ragtune serve")))
    options, data = command[2:], tmp_path_factory.mktemp("pages") / "data"
    for name, value in (("--port", "0"), ("--model", tiny_cross_encoder)):
        options[options.index(name) + 1] = value
    places = {"XDG_DATA_HOME": str(data), "RAGTUNE_DSN": "postgresql://127.0.0.1:1/x"}
    with redirect_stderr(StringIO()) as said, serving_here(*options, "--dtype", "fp32", **places) as server:
        yield SimpleNamespace(server=server, data=data, said=said)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
def test_the_pages_lines_are_answered_as_it_says(pages: SimpleNamespace, tiny_cross_encoder: str) -> None:
    server = pages.server
    asked = re.findall(r"^curl (?:'[^']*'|[^'\n])*", SHELL, flags=re.MULTILINE)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(asked) == SHELL.count("curl ") == 3
    assert pages.said.getvalue().startswith(f"ragtune: loading {tiny_cross_encoder}\n")
    assert re.search(r"loading .+ took [.\d]+ s\n", pages.said.getvalue())
    answers = [
        subprocess.run(
            ["curl", "-sS", "--fail", *shlex.split(line.replace("http://localhost:8080", server.url))[1:]],
            capture_output=True,
            check=True,
            timeout=HANG_S,
        ).stdout.decode()
        for line in asked
    ]
    page: dict[str, Any] = {}
    exec(code.replace("http://localhost:8080", server.url), page)  # noqa: S102 - the page of this checkout
    first, second = json.loads(answers[0]), json.loads(answers[1])
    shown = json.loads("".join(re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)))
    assert (shape(first), len(first["results"])) == (shape(shown), 2)
    for unit in ("docs", "calls", "tokens"):
        assert first["ragtune"]["spent"][unit] == shown["ragtune"]["spent"][unit]
    assert first["ragtune"]["stop"]["reason"] == shown["ragtune"]["stop"]["reason"]
    assert second["ragtune"]["spent"]["docs"] == second["ragtune"]["saved"]["docs"] == 2
    assert "ragtune_rerank_documents_total" in answers[2]
    assert len(page["found"].results) == 2


def test_it_ranks_as_the_library_does_and_opens_no_store_before_a_collection_is_asked_for(
    pages: SimpleNamespace, tiny_cross_encoder: str
) -> None:
    server = pages.server
    found = server.rank("what sails", DOCUMENTS)["results"]
    here = BudgetedReranker(tiny_cross_encoder, docs=20, policy="fixed_depth").rank("what sails", DOCUMENTS)
    scores = {one.index: one.score for one in here}
    assert len({round(score, 5) for score in scores.values()}) > 1
    assert {one["index"]: one["relevance_score"] for one in found} == pytest.approx(scores, abs=1e-6)
    assert server.ask("GET", "/")[1]["rerank"]["rerank_v2"] == "/v2/rerank"
    assert server.ask("GET", "/readyz") == (200, {"status": "ok"})
    assert server.ask("POST", "/v1/normalize", {"content": "a"})[0] == 200
    assert server.ask("GET", "/v1/collections")[0] == 503  # there is no such PostgreSQL
    server.rank("what sails", DOCUMENTS)
    assert not pages.data.exists()


def shape(answer: Any) -> Any:
    """The names of all fields, in order."""
    return {name: shape(value) for name, value in answer.items()} if isinstance(answer, dict) else None


@pytest.mark.parametrize(
    ("options", "calls"),
    [
        (["--llm", "listwise", "--batch-size", "6", "--calls", "3"], 3),
        (["--llm", "setwise", "--policy", "setwise_insertion"], None),
    ],
)
def test_a_language_model_compares_windows_within_the_servers_budget(
    options: list[str], calls: int | None, llm_server: Any
) -> None:
    model = ["--store", "memory", "--model", "small-1", "--llm-base-url", llm_server.url, "--llm-key-env", "A_KEY"]
    model += ["--llm-thinking-tokens", "900"]
    documents = [f"{'green tea, steamed' if i == 4 else 'a ship'} {i}" for i in range(9)]
    with serving_here(*model, "--usd-per-1k-tokens", "0.001", *options, A_KEY="secret-of-the-model") as server:
        answer = server.rank("green tea", documents)
    spent = answer["ragtune"]["spent"]
    assert answer["results"][0]["index"] == 4
    assert sorted(one["index"] for one in answer["results"]) == list(range(9))
    assert 0 < len(llm_server.requests) == spent["calls"] <= (calls or 30)
    assert spent["usd"] > 0.0
    assert "warnings" not in answer["meta"]
    assert llm_server.requests[0].headers["authorization"] == "Bearer secret-of-the-model"
    assert 900 < llm_server.requests[0].body["max_tokens"] < 1000


@pytest.mark.parametrize(
    ("open_requests", "reranked", "failed", "stop"), [(3, 0, 8, "strategy_closed"), (1, 5, 3, "budget_exhausted")]
)
def test_at_sigterm_open_requests_are_answered_though_the_upstream_hangs(
    open_requests: int, reranked: int, failed: int, stop: str, llm_server: Any
) -> None:
    """``serving`` ends the process by SIGTERM, and checks its exit status."""
    documents, goes_on = [f"text {i}" for i in range(12)], threading.Event()
    upstream = ["--model", llm_server.rerank_url("cohere"), "--upstream-model", "test", "--batch-size", "5"]
    options = ["--store", "memory", *upstream, "--docs", "8", "--timeout", "600"]
    try:
        with ThreadPoolExecutor(3) as clients:
            with serving(*options) as server:
                llm_server.faults += [None] * (reranked > 0) + [Fault("slow", until=goes_on)] * open_requests
                asked = [clients.submit(server.rank, f"tea {i}", documents) for i in range(open_requests)]
                wait_until(lambda: sum(one.fault == "slow" for one in llm_server.requests) == open_requests)
            answers = [one.result(HANG_S) for one in asked]
    finally:
        goes_on.set()
    assert len(llm_server.requests) == open_requests + (reranked > 0)
    for answer in answers:
        assert sorted(one["index"] for one in answer["results"]) == list(range(12))
        told = answer["ragtune"]
        assert (len(told["reranked"]), len(told["failed"]), told["stop"]["reason"]) == (reranked, failed, stop)
        assert "the server is being closed" in " ".join(answer["meta"]["warnings"])
        if not reranked:
            assert [one["index"] for one in answer["results"]] == list(range(12))


def test_the_page_tells_how_to_measure_the_loss(
    llm_server: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    commands = [line for line in SHELL.replace("\\\n", " ").splitlines() if line.startswith("ragtune")]
    (serve,) = (shlex.split(line) for line in commands if "--shadow" in line)
    (report,) = (shlex.split(line) for line in commands if line.startswith("ragtune shadow report"))
    file = tmp_path / report[-1]
    options = serve[2:]
    upstream = llm_server.rerank_url("cohere")
    given = {"--port": "0", "--model": upstream, "--docs": "2", "--shadow": "1", "--shadow-file": str(file)}
    for name, value in given.items():
        options[options.index(name) + 1] = value
    with serving_here(*options, "--upstream-model", "test") as server:
        for query in ("what lowers lipids", "what sails"):
            server.rank(query, DOCUMENTS)
        wait_until(lambda: file.read_text(encoding="utf-8").count("\n") == 2)
    assert main([*report[1:-1], str(file)]) == 0
    table = capfd.readouterr().out
    assert re.search(r"^  documents saved a request +2\.0  \[2\.0, 2\.0\]$", table, flags=re.MULTILINE), table
    assert "docs 2: 2 requests" in table
    assert not any(text in file.read_text(encoding="utf-8") for text in DOCUMENTS)


WRONG = {
    "retry_alone": (["--retry-after", "5"], "--retry-after: allowed with --model only"),
    "limit_alone": (["--model", "m", "--over-limit", "429"], "--over-limit: allowed with --usage only"),
    "a_key": (["--model", "http://127.0.0.1:1", "--upstream-key-env", "sk-1"], "--upstream-key-env: allowed is the N"),
    "upstream_scale": (["--model", "http://localhost:1", "--upstream-scale", "raw"], "reranker scale='raw'"),
    "shadow_share": (["--model", "m", "--shadow", "2"], "shadow share=2"),
    "shadow_folder": (["--model", "m", "--shadow", "1", "--shadow-file", "/"], "shadow file /: cannot be written"),
    "upstream_calls": (["--model", "http://127.0.0.1:1", "--upstream-concurrency", "0"], "concurrency=0"),
    "missing": (["--model", "/there/is/none"], "/there/is/none"),
    "llm": (["--model", "m", "--llm", "pairwise"], "--llm='pairwise': allowed are listwise, setwise"),
    "llm_dollars": (
        ["--llm", "listwise", "--llm-base-url", "http://127.0.0.1:1", "--model", "m", "--usd", "0.1"],
        "usd=0.1: the reranker has no price",
    ),
    "llm_thoughts": (["--model", "m", "--llm", "listwise", "--llm-thinking-tokens", "-1"], "thinking_tokens=-1"),
    "windows": (["--model", "m", "--policy", "knockout", "--batch-size", "4"], "batch_size=4: allowed is None"),
    "cache": (["--model", "http://127.0.0.1:1", "--score-cache", "FOLDER"], "the score cache"),
    "fallback_number": (["--model", "http://127.0.0.1:1", "--fallback", "x batch_size=a"], "with numbers for usd_per_"),
    "fallback_name": (["--model", "http://127.0.0.1:1", "--fallback", ""], "--fallback : cannot be read (no model)"),
    "dtype": (["--model", "any", "--dtype", "fp8"], "reranker dtype='fp8': allowed are fp32, bfloat16, int8, auto"),
    "backend": (["--model", "any", "--backend", "tpu"], "reranker backend='tpu': allowed are torch, onnx"),
    "dtype_of_address": (["--model", "http://localhost:9", "--dtype", "int8"], "--dtype: allowed where --model is a"),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_options_end_with_one_line_that_names_them(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "scores" / "scores.sqlite").mkdir(parents=True)
    given, told = WRONG[name]
    options = [str(tmp_path) if word == "FOLDER" else word for word in given]
    assert main(["serve", "--store", "memory", "--port", "0", *options]) == 2
    shown = re.sub(r"ragtune: (still )?loading .*\n", "", capfd.readouterr().err)
    assert shown.count("\n") == 1, shown
    assert told in shown
