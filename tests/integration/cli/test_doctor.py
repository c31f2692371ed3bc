"""ragtune doctor: what is missing, and how to get it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from threading import Thread

import pytest
from postgres_server import fresh_dsn

from ragtune.cli.commands import doctor
from ragtune.cli.main import main
from ragtune.rerankers.http.dialects import DIALECTS

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_every_extra_is_told_with_what_it_is_for() -> None:
    assert set(doctor._FOR) == set(PROJECT["optional-dependencies"]) - {"dev"}


def test_every_variable_that_is_read_is_told() -> None:
    read = {
        name
        for folder in ("ragtune", "experiments")
        for file in (ROOT / folder).rglob("*.py")
        for name in re.findall(r'\b(?:environ(?:\.get\(|\[)|[A-Z_]+(?:_VARIABLE|_KEY) = )"([A-Z_]+)"', file.read_text())
    }
    ours = {
        "HYDRA_FULL_ERROR",
        "RAGTUNE_PAGE_CONFIG",
        "RAGTUNE_PAGE_CORPUS",
        "LOCALAPPDATA",
        "PYTHONPATH",
    }  # set by programs, not by users
    assert read - ours <= set(doctor.VARIABLES)
    assert {dialect.key_env for dialect in DIALECTS.values()} <= set(doctor.VARIABLES)


def test_what_is_missing_comes_with_the_command_that_gets_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def version(name: str) -> str:
        if name in ("torch", "psycopg"):
            raise PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(doctor, "version", version)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a-secret")
    assert main(["doctor", "--offline"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert lines["models"].endswith("torch missing: pip install 'ragtune[models]'")
    assert lines["services"].endswith("psycopg missing: pip install 'ragtune[services]'")  # by the extra in it
    assert lines["llm"].endswith("installed")
    assert lines["OPENAI_API_KEY"].split()[:2] == ["OPENAI_API_KEY", "set"]


class Server(ThreadingHTTPServer):
    """Answers some paths, and remembers what it was asked with."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.asked: list[tuple[str, str | None]] = []


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        statuses = {"/v1/models": 200, "/health": 200, "/moved/models": 302}
        refused = self.headers.get("Authorization") == "Bearer sk-stale"
        self.send_response(401 if refused else statuses.get(self.path, 404))
        self.send_header("Location", f"{self.server.url}/v1/models")
        self.end_headers()
        self.wfile.write(json.dumps({"data": [{"id": "tiny"}]}).encode())

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def servers_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """What the doctor says of servers, with these variables and options: exit code, and text by name."""

    def call(*options: str, **variables: str) -> tuple[int, dict[str, str]]:
        for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "RAGTUNE_DSN", "MLFLOW_TRACKING_URI"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        code = main(["doctor", "--timeout", "2", *options])
        said = capsys.readouterr().out
        assert not {"sk-", "pa55"} & set(re.findall(r"sk-|pa55", said))
        lines = said.partition("\nServers\n")[2].splitlines()
        return code, {line[4:19].strip(): line[2] + line[20:] for line in lines if line[:2] == "  "}

    return call


def test_nothing_configured_is_well(servers_of) -> None:
    code, said = servers_of()
    assert (code, list(said)) == (0, ["language model", "PostgreSQL", "MLflow"])
    assert all(text.startswith(" not configured: ") for text in said.values())


def test_servers_that_answer_are_told_and_asked_nothing_that_costs(servers_of, server: Server, tmp_path: Path) -> None:
    code, said = servers_of(
        *("--url", f"{server.url}/v2/rerank"),
        OPENAI_BASE_URL=f"{server.url}/v1",
        OPENAI_API_KEY="sk-fresh",
        MLFLOW_TRACKING_URI=server.url.replace("//", "//me:pa55@"),
        RAGTUNE_DSN=fresh_dsn(),
    )
    assert code == 0, said
    assert said["language model"].startswith(f" {server.url}/v1 answers in ")
    assert " is PostgreSQL 1" in said["PostgreSQL"]
    assert "with pgvector 0." in said["PostgreSQL"]
    assert server.asked == [
        ("/v1/models", "Bearer sk-fresh"),
        ("/health", "Basic bWU6cGE1NQ=="),
        ("/healthz", None),
        ("/health", None),
    ]
    assert servers_of(MLFLOW_TRACKING_URI=f"sqlite:///{tmp_path}/new/mlflow.db")[0] == 0


def test_what_is_configured_and_cannot_be_used_is_exit_code_1(servers_of, server: Server) -> None:
    code, said = servers_of(
        *("--url", "http://127.0.0.1:9"),
        OPENAI_BASE_URL=f"{server.url}/v1",
        OPENAI_API_KEY="sk-stale",
        MLFLOW_TRACKING_URI="http://127.0.0.1:9",
        RAGTUNE_DSN="postgresql://me:pa55@127.0.0.1:9/db",
    )
    assert code == 1
    assert said["language model"] == f"!{server.url}/v1 refuses the key of OPENAI_API_KEY (401)"
    assert said["PostgreSQL"].startswith("!127.0.0.1:9/db does not answer: ")
    assert said["MLflow"] == said["rerank server"] == "!http://127.0.0.1:9 does not answer: Connection refused"
    code, said = servers_of(OPENAI_BASE_URL=f"{server.url}/moved", OPENAI_API_KEY="sk-fresh", RAGTUNE_DSN="a b pa55")
    assert (code, said["language model"]) == (1, f"!{server.url}/moved answers 302 Found")
    assert server.asked[-1][0] == "/moved/models"  # and the key went nowhere else
    assert said["PostgreSQL"].startswith("!RAGTUNE_DSN cannot be read")


def test_a_bad_address_is_refused_before_anything_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--url", "http://me:pa55@localhost"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), "pa55" in err) == ("", 1, False)


def test_a_cache_that_cannot_be_made_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RAGTUNE_CACHE", str(tmp_path / "file" / "cache"))
    assert main(["doctor", "--offline"]) == 0
    assert f"cannot be: nothing can be put into {tmp_path / 'file'}\n" in capsys.readouterr().out
