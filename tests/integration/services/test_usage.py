"""Daily limits of keys while the usage file is locked, and files that cannot be used."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ragtune.cli.main import main
from ragtune.core.errors import ConfigError
from ragtune.embedders.passages import Passages
from ragtune.rerankers.function import FunctionReranker
from ragtune.services.chain import ServedRanking
from ragtune.services.payloads import RerankQuery
from ragtune.services.rerank import RerankServer
from ragtune.services.usage import KeyUsage


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "usage.db"


@pytest.fixture
def server(file: Path) -> Iterator[RerankServer]:
    model = FunctionReranker(lambda query, texts: [len(text) / 100 for text in texts])
    with RerankServer(model, "length", budget={"docs": 5}, usage=KeyUsage(file, {"docs": 25})) as made:
        yield made


def ask(server: RerankServer) -> ServedRanking:
    return server.rank(RerankQuery(query="tea", documents=["x" * i for i in range(1, 11)]))


def written(file: Path) -> int:
    with sqlite3.connect(file) as database:
        return int(database.execute("SELECT SUM(docs) FROM usage").fetchone()[0])


def test_a_file_that_cannot_be_written_loses_no_answer_and_no_amount(
    server: RerankServer, file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ask(server)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with ThreadPoolExecutor(3) as clients:
        answers = list(clients.map(lambda _: ask(server), range(3)))
    assert [answer.answered_by for answer in answers] == ["length"] * 3
    assert capfd.readouterr().err.count("cannot be written") == 1
    other.execute("COMMIT")
    assert written(file) == 5
    assert ask(server).answered_by == "length"
    assert written(file) == 25  # with what was in memory
    assert ask(server).stop.reason == "over_limit"


def test_documents_in_passages_count_by_the_passages_that_may_be_read(file: Path) -> None:
    model = FunctionReranker(lambda query, texts: [len(text) / 100 for text in texts])
    usage, passages = KeyUsage(file, {"docs": 25}), Passages(4, most=2)
    with RerankServer(model, "length", usage=usage, passages=passages) as server:
        answer = server.rank(
            RerankQuery(query="tea", documents=["Bread is baked. Salt is mined. Tea is green.", "tea"])
        )
    assert (answer.answered_by, written(file)) == ("length", 3)


def test_a_file_that_cannot_be_read_gives_the_first_stages_order(
    server: RerankServer, file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ask(server)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("ALTER TABLE usage RENAME TO hidden")
    answer = ask(server)
    assert (answer.stop.reason, answer.answered_by, len(answer)) == ("usage_unavailable", "first stage", 10)
    assert "cannot be read" in capfd.readouterr().err
    other.execute("ALTER TABLE hidden RENAME TO usage")
    assert ask(server).answered_by == "length"


def test_requests_do_not_wait_for_a_file_that_others_keep(server: RerankServer) -> None:
    with server._usage._turn:
        assert ask(server).stop.reason == "usage_unavailable"


@pytest.mark.parametrize("kind", ["another table", "no database", "a folder"])
def test_a_file_of_another_kind_is_refused_with_its_name(
    file: Path, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    if kind == "another table":
        with sqlite3.connect(file) as database:
            database.execute("CREATE TABLE usage (a INT)")
    elif kind == "no database":
        file.write_bytes(b"no database" * 100)
    else:
        file.mkdir()
    with pytest.raises(ConfigError, match=r"usage\.db: cannot be used"):
        KeyUsage(file, {})
    code = main(["serve", "--store", "memory", "--model", "http://127.0.0.1:9/v2/rerank", "--usage", str(file)])
    err = capfd.readouterr().err
    assert code == 2
    assert str(file) in err
    assert "Traceback" not in err
