"""The canonical blocks against their golden vectors (rule D14), by the library and over real servers."""

import copy
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from command_line import without_progress
from patience import HANG_S
from pgvector.psycopg import register_vector
from postgres_server import fresh_dsn
from rerank_server import KEY, serving

from experiments.commands import conformance as command
from experiments.conformance import canonical
from experiments.conformance.canonical import LibraryTarget, pin_canonical
from ragtune.canonical import conformance
from ragtune.canonical.conformance import (
    GOLDEN,
    SPEC,
    Json,
    Observations,
    generated_chunks,
    load_fixtures,
    load_golden,
    suite,
)
from ragtune.canonical.conformance.observing import observe
from ragtune.canonical.conformance.suite import SCORE_TOLERANCE, differences, run_suite
from ragtune.canonical.conformance.targets import RestTarget
from ragtune.canonical.policies import RetrievalPlan
from ragtune.canonical.retrieval import index
from ragtune.canonical.store.database import PostgresDatabase
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.canonical.store.statements import Statements, filter_condition
from ragtune.canonical.types import Chunk
from ragtune.cli.dispatch import run_command
from ragtune.embedders.hashing import HashingEmbedder

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def fixtures() -> Json:
    return load_fixtures()


@pytest.fixture(scope="module")
def golden() -> Observations:
    return load_golden()


@pytest.fixture
def small(fixtures: Json, golden: Observations, monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite without its large collection, which takes most of the time."""
    monkeypatch.setattr(suite, "load_fixtures", lambda: {**fixtures, "groups": fixtures["groups"][:-1]})
    kept = {name: answer for name, answer in golden.items() if not name.startswith(("large/", "store/group large"))}
    monkeypatch.setattr(suite, "load_golden", lambda: kept)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with PostgresDatabase(fresh_dsn()) as database, serving(None, service=LibraryTarget(database).service) as url:
        yield url


@pytest.mark.parametrize("kind", ["postgres", "postgres_indexed", "rest"])
def test_every_target_answers_what_the_store_in_memory_answers(kind: str, request: pytest.FixtureRequest) -> None:
    """Identical, not only within the tolerance that others are given, and nothing is left behind."""
    if kind == "rest":
        report = run_suite(RestTarget(request.getfixturevalue("server"), KEY))
    else:
        options = {"exact_below": 0} if kind == "postgres_indexed" else {}
        with PostgresDatabase(fresh_dsn(), **options) as indexed:
            report = run_suite(LibraryTarget(indexed))
    lines = [line for line in report.lines if kind != "postgres_indexed" or not line.startswith("large/")]
    assert (lines, report.skipped) == ([], [])
    if kind != "postgres_indexed":
        assert json.dumps(report.observed, sort_keys=True) == json.dumps(load_golden(), sort_keys=True)


def test_the_large_collection_is_searched_through_the_indexes(fixtures: Json) -> None:
    (large,) = (group for group in fixtures["groups"] if "generated" in group)
    assert large["generated"] > inspect.signature(PostgresDatabase).parameters["exact_below"].default
    filters = [plan.filters for plan in _plans(large["queries"]) if not plan.filters.is_empty]
    dsn = fresh_dsn()
    with PostgresDatabase(dsn) as database, psycopg.connect(dsn, autocommit=True) as connection:
        embedder = HashingEmbedder()
        store = database.open("large", embedder, create=True)
        index([Chunk(**chunk) for chunk in generated_chunks(large["generated"])], store)
        connection.execute("SELECT set_config('hnsw.iterative_scan', 'strict_order', false)")
        register_vector(connection)

        def plan(sql: str, **values: Any) -> str:
            rows = connection.execute(f"EXPLAIN {sql}".encode(), values).fetchall()
            return "".join(line for (line,) in rows)

        sql = Statements(1, embedder.dims)
        near = {"query": embedder.embed([large["queries"][0]["query"]])[0], "fetch": 26, "most": 1040}
        assert "Index Scan using chunks_1_hnsw" in plan(sql("nearest"), **near)
        used = set()
        for wanted in filters:
            values = {"tags_any": list(wanted.tags_any), "tags_all": list(wanted.tags_all)}
            values |= {"metadata": json.dumps(wanted.metadata), "any": "'word2998' | 'word2500'"}
            condition = filter_condition(wanted)
            found = sql("read_passing", condition + " AND tsv @@ %(any)s::tsquery")
            used |= set(re.findall("Bitmap Index Scan on chunks_1_([a-z]+)", plan(found, **values)))
        assert used == {"tsv", "tags", "metadata"}
        assert "on postings_1_term_idx" in plan(sql("read_postings"), terms=["word2998", "word1"])


def test_a_second_ingestion_gives_the_same_chunks_embeddings_and_keys(fixtures: Json) -> None:
    database = MemoryDatabase()
    target = LibraryTarget(database)
    report = run_suite(target)
    assert (report.lines, report.skipped, database.collections()) == ([], [], [])
    again = observe(target, {**fixtures, "groups": []})
    assert again == {name: report.observed[name] for name in again}
    assert json.dumps(report.observed, sort_keys=True) == json.dumps(load_golden(), sort_keys=True)


def test_the_golden_file_is_what_pinning_would_write(
    golden: Observations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path(conformance.__file__).parent / f"v{SPEC}" / GOLDEN
    assert re.fullmatch(r"\d+\.\d+\.\d+", SPEC)
    (tmp_path / f"v{SPEC}").mkdir()
    monkeypatch.setattr(canonical, "files", lambda package: tmp_path)
    monkeypatch.setattr(canonical, "observe", lambda *_: golden)  # which another test compares with the answers
    pin_canonical()
    assert (tmp_path / f"v{SPEC}" / GOLDEN).read_bytes() == file.read_bytes()


def test_no_golden_order_hangs_on_a_difference_that_is_tolerated(fixtures: Json) -> None:
    """Nor on one between the last candidate and the first that is left out."""

    def longer(kept: Any) -> Any:
        cases = [{**case, "plans": _one_more(case["plans"])} for case in kept["queries"] if "fuse" not in case]
        return {**kept, "queries": cases}

    deeper = {**longer(fixtures), "groups": list(map(longer, fixtures["groups"]))}
    for name, answer in (observe(LibraryTarget(), deeper) | load_golden()).items():
        scores = [hit["score"] for hit in answer.get("candidates", ())] if isinstance(answer, dict) else []
        gaps = [left - right for left, right in pairwise(scores) if left != right]
        assert min(gaps, default=1.0) >= 2 * SCORE_TOLERANCE, name


def _one_more(plans: Any) -> Any:
    (plan,) = plans.values() if isinstance(plans, dict) else plans
    k = plan["k"] + 1
    return [{**plan, "k": k, "candidate_pool": max(plan.get("candidate_pool", 50), k)}]


def test_the_fixtures_cover_what_the_specification_names(fixtures: Json) -> None:
    methods = {policy["method"] for policy in fixtures["policies"].values()}
    assert methods == {"tokens", "sentences", "paragraphs", "markdown"}
    plans = _plans(fixtures["queries"])
    assert {plan.mode for plan in plans} == {"vector", "lexical", "hybrid"}
    for condition in ("tags_any", "tags_all", "metadata"):
        assert {plan.mode for plan in plans if getattr(plan.filters, condition)} == {"vector", "lexical", "hybrid"}
    assert {case["fuse"].get("method", "rrf") for case in fixtures["queries"] if "fuse" in case} == {"rrf", "concat"}
    compressed = [case["compress"] for case in fixtures["queries"] if "compress" in case]
    assert {one.get("method", "windows") for one in compressed} == {"windows", "spans"}
    contents = json.dumps(fixtures["documents"], ensure_ascii=False)
    for script in ("茶", "שלומך", "الشاي", "चाय", "чай", "ชา", "👨\u200d👩", "e\u0301", "\u2028"):
        assert script in contents


def _plans(cases: list[Json]) -> list[RetrievalPlan]:
    every = [case["plans"] for case in cases]
    return [RetrievalPlan(**one) for plans in every for one in (plans.values() if isinstance(plans, dict) else plans)]


@pytest.fixture
def observed(golden: Observations) -> Observations:
    return copy.deepcopy(golden)


CASE = "vector/question"


def test_scores_within_the_tolerance_conform(observed: Observations, golden: Observations) -> None:
    for hit in observed[CASE]["candidates"]:
        hit["score"] += SCORE_TOLERANCE / 2
    assert not differences(observed, golden)[CASE]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda hits: hits[0].update(score=hits[0]["score"] + 1e-4), "candidates[0].score is"),
        (lambda hits: hits.reverse(), "not in order of score, doc_id, chunk_index"),
        (lambda hits: hits.pop(), "11 items, pinned are 12"),
        (lambda hits: hits[1].update(extra=1), "candidates[1].extra: not pinned"),
    ],
)
def test_a_wrong_answer_is_told_with_its_place(
    observed: Observations, golden: Observations, spoil: Any, said: str
) -> None:
    spoil(observed[CASE]["candidates"])
    found = differences(observed, golden)
    assert any(said in line for line in found.pop(CASE))
    assert not any(found.values())


def test_equal_scores_in_another_order_than_by_rule_are_told(observed: Observations, golden: Observations) -> None:
    hits = observed["vector/ties by doc_id and chunk_index"]["candidates"]
    assert hits[0]["score"] == hits[1]["score"]
    hits[0], hits[1] = hits[1], hits[0]
    assert differences(observed, golden)["vector/ties by doc_id and chunk_index"]


@pytest.mark.usefixtures("small")
def test_a_function_that_fails_is_a_failed_case_and_leaves_the_others_alone() -> None:
    class Broken(LibraryTarget):
        def call(self, operation: str, arguments: Any) -> Any:
            if operation == "compress":
                raise RuntimeError("on fire")
            return super().call(operation, arguments)

    report = run_suite(Broken())
    assert {name.partition("/")[0] for name in report.failures} == {"compress", "package"}
    assert report.failures["compress/windows"] == ["RuntimeError: on fire"]


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., SimpleNamespace]:
    def call(*arguments: str, **variables: str) -> SimpleNamespace:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        code = run_command("conformance", command, arguments)
        out, err = capfd.readouterr()
        return SimpleNamespace(returncode=code, stdout=out, stderr=without_progress(err))

    return call


def test_the_command_checks_decisions_and_the_blocks_in_memory(check: Any) -> None:
    done = check()
    assert (done.returncode, done.stderr) == (0, "")
    said = "conformance with spec 0.55.0: passed\nlibrary: conformance with ragd 1.1.0: passed"
    assert said in done.stdout


def test_neither_locale_nor_hash_seed_changes_an_answer() -> None:
    code = (
        "from experiments.conformance.canonical import LibraryTarget\n"
        "from ragtune.canonical.conformance.suite import run_suite\n"
        "print(*run_suite(LibraryTarget()).lines)"
    )
    given = {"LC_ALL": "C", "PYTHONHASHSEED": "1", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    said = subprocess.check_output([sys.executable, "-c", code], env={**os.environ, **given}, cwd=ROOT, timeout=HANG_S)
    assert said == b"\n"


@pytest.mark.usefixtures("small")
def test_the_command_asks_a_server_by_url_with_a_key_from_the_environment(check: Any) -> None:
    with serving(None, service=LibraryTarget().service) as server:
        done = check("--url", server, "--api-key-env", "MY_KEY", "--reranker", "none", MY_KEY=KEY)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"rest {server}: conformance with ragd {SPEC}: passed")
    assert "6 skipped (rerank/of lexical candidates, " in done.stdout
    assert KEY not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--url", "http://127.0.0.1:9"], "list_collections: http://127.0.0.1:9 cannot be reached"),
        (["--url", "ftp://x"], "url='ftp://x': allowed is http(s)://host"),
        (["--url", "http://x", "--api-key-env", "NOT_SET"], "--api-key-env NOT_SET: that environment variable is not"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], said: str, check: Any) -> None:
    done = check(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
