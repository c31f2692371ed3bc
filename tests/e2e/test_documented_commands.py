"""Every command that README, docs and help texts show runs on small data; what cannot run here is taken at least."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import shutil
import signal
import socketserver
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from command_line import ROOT
from joblib.externals.loky import get_reusable_executor
from reader_folder import CERTIFICATE_KEY, write_all

from experiments.cli.main import help_text
from experiments.config.compose import compose, composed, plain
from experiments.publish import files
from ragtune.cli import harness
from ragtune.cli.dispatch import Command, Parser, declare
from ragtune.cli.main import main

ALIASES = {
    "run.py": "run",
    **{
        f"scripts/{file.stem}.py": name
        for file in (ROOT / "scripts").glob("*.py")
        for name in re.findall(r'main\("([\w-]+)"\)', file.read_text(encoding="utf-8"))
    },
}
"""Commands of a checkout, by the file that is an alias of each."""

HARNESS = list(harness.COMMANDS)
COMMANDS: dict[str, Command] = {name: harness.load(name) for name in (*HARNESS, *harness.SERVICES)}


@cache
def pages() -> dict[str, str]:
    """What a reader sees, by where it stands."""
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in files}
    texts |= {f"{name} --help": command.__doc__ or "" for name, command in COMMANDS.items()}
    return texts | {
        f"{name} --help, usage": help_text("", is_sweep=name == "sweep").partition("\nChoices")[0]
        for name in ("run", "sweep")
    }


def commands() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Where a command stands, and its words: the command's name first."""
    for where, text in pages().items():
        text = re.sub(r" *\\\n *", " ", text)
        for found in re.finditer(r"^ *(?:python (?=run\.py|scripts/)|ragtune (?=[a-z]+\b))", text, re.MULTILINE):
            words = words_of(text[found.end() :].splitlines())
            words[0] = ALIASES.get(words[0], words[0])
            if not words[0].startswith("scripts/") and not any("GROUP" in word for word in words):
                yield where, tuple(words)


def words_of(lines: list[str]) -> list[str]:
    """The words of the command that the lines begin with; what is quoted may go on over several lines."""
    for last in range(1, len(lines) + 1):
        shown = "\n".join(lines[:last])
        shown = shown if "\n" in shown else re.split(r" (?:[|<>&](?: |$)|\.\.\.)|  +(?=[A-Za-z])", shown)[0]
        try:
            return shlex.split(shown, comments=True)
        except ValueError:
            continue
    raise ValueError(f"no end of {lines[0]!r}")


SHOWN = sorted({words: where for where, words in commands()}.items())
"""Each command once, with a page that shows it."""


def is_own_component(words: tuple[str, ...]) -> bool:
    """Whether the page has its reader write the component first."""
    made = re.findall(r'title="conf/(\w+)/(\w+)\.yaml"', "\n".join(pages().values()))
    return any(f"{group}={name}" in words for group, name in made) or any("mine" in word for word in words)


NOT_HERE = {
    r"\.\./shared/data|--data DATA": "reads the collections of ../shared, which a checkout does not have",
    r"submitit_slurm": "needs a Slurm cluster",
    r"ray://": "needs a Ray cluster; executor=ray runs here",
    r"^conformance.* https://rag\.example\.org": "asks a deployed service; tests/conformance serves one and asks it",
    r"^conformance$": "takes a minute; .ci/run runs it",
    r"^score --out datasets/demo": "makes the shipped score table of the demo anew from 341 texts and 50 queries",
    r"retriever\.mode=": "searches a collection that the reader has ingested; tests/e2e/test_ingest.py does both",
    r"^(ingest|search|prompt) .*--(collection|table)": "needs the reader's documents: tests/e2e/test_ingest.py",
    r"^(gate|explain) ": "tests/e2e/frontier/test_compare.py runs it",
    r"^(export|pack) |dataset=pack:|callbacks=tirex": "tests/e2e/test_export.py and test_pack.py run it",
    r"^leaderboard ": "tests/e2e/test_leaderboard.py runs it",
    r"executor=(ray|joblib)|submitit_local|=glob": "tests/e2e/test_executors.py runs it",
    r"launcher=joblib": "tests/e2e/test_tracking.py runs it",
    r"^(drift|reproduce) ": "tests/e2e/test_model_commands.py and test_reproduce.py run it",
}
"""Why a command is not run here. It is parsed all the same."""

REST = {
    "run": ["dataset.every=10", "bootstrap.resamples=20", "verbosity=0", "tracking=none"],
    "study": ["queries=4", "jobs=1", "resamples=20", "permutations=99"],
    "advise": ["--max-queries", "10", "--yes", "bootstrap.resamples=20"],
}
"""What makes a command quick, by its name."""

OWN_DATA = re.compile(r"path=DIR|path=notes")


def kind_of(words: tuple[str, ...]) -> str:
    """The command without amounts and folders: of those that differ in nothing else, one runs."""
    line = re.sub(r"/(runs|scores)/|\b(data|results)/(?=postgres)", "/", " ".join(words)).replace("run -m ", "sweep ")
    return re.sub(r" (budget|hydra\.(run|sweep)\.dir|hydra\.sweeper\.n_trials)=\S+", "", line)


RUN = list(
    {
        kind_of(words): words
        for words, _ in SHOWN
        if not is_own_component(words) and not any(re.search(pattern, shlex.join(words)) for pattern in NOT_HERE)
    }.values()
)


@pytest.fixture(scope="module")
def database() -> Iterator[Path]:
    """Folder of an embedded server, which its own user can enter, with the collections that the pages name."""
    folder = Path(tempfile.mkdtemp(prefix="ragtune-docs-"))
    folder.chmod(0o711)
    yield folder / "postgres"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def earlier(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Path:
    """The folder of a reader who has followed the tutorial: a tracked run, another one, and a sweep."""
    folder = tmp_path_factory.mktemp("earlier")
    (folder / "results").mkdir()
    shutil.copy(empty_store, folder / "results" / "mlflow.db")
    quick = [option for option in REST["run"] if option != "tracking=none"]
    with pytest.MonkeyPatch.context() as here:
        here.chdir(folder)
        here.setenv("RAGTUNE_CACHE", environment["RAGTUNE_CACHE"])
        here.delenv("MLFLOW_TRACKING_URI", raising=False)
        assert main(["run", "experiment=fixed_depth", "hydra.run.dir=results/runs/full", *quick]) == 0
        assert main(["run", "experiment=settled", "hydra.run.dir=results/runs/settled", *REST["run"]]) == 0
        sweep = ["experiment=fixed_depth,settled", "hydra.sweep.dir=results/sweeps/tutorial"]
        assert main(["sweep", *sweep, "budget=10", *REST["run"]]) == 0
    runs = folder / "results" / "runs"
    for job, number in enumerate((7, 8)):  # of more budgets
        (folder / "results" / "sweeps" / "tutorial" / str(job)).rename(folder / f"results/sweeps/tutorial/{number}")
    for name, source in {"FIRST": "full", "SECOND": "settled", "LATER": "settled"}.items():
        (runs / name).symlink_to(runs / source)
    (folder / "results" / "sweeps" / "LATER").symlink_to(folder / "results" / "sweeps" / "tutorial")
    for name in ("ALL", "RUN"):
        (folder / name).symlink_to(runs / ("full" if name == "ALL" else "settled"))
    return folder


@pytest.fixture(scope="module")
def tiny_encoder(tiny_cross_encoder: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    from transformers import AutoTokenizer, BertModel

    folder = tmp_path_factory.mktemp("tiny-encoder")
    BertModel.from_pretrained(tiny_cross_encoder).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_cross_encoder).save_pretrained(folder)
    return str(folder)


@pytest.fixture
def reader(
    tmp_path: Path, prepared: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, llm_server: Any
) -> Path:
    """A reader's folder, which is the current one, and what else a command finds."""
    folder = tmp_path / "reader"
    shutil.copytree(prepared, folder, symlinks=True)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["ragtune"])
    monkeypatch.setattr(files, "draw_curve", lambda *_: None)  # tests/e2e/test_main_job.py has it drawn
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for name in ("OPENAI", "LLM", "CO", "COHERE", "VOYAGE", "JINA"):
        monkeypatch.setenv(f"{name}_API_KEY", "none-is-needed")
    monkeypatch.setenv("LLM_KEY", "none-is-needed")
    monkeypatch.setenv("RAGTUNE_CERTIFICATE_KEY", CERTIFICATE_KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", llm_server.url)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return folder


@pytest.fixture(scope="module")
def prepared(tiny_encoder: str, database: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the pages call DIR, OUT, MODEL, notes and so on."""
    folder = tmp_path_factory.mktemp("prepared")
    with contextlib.chdir(folder):
        write_all(tiny_encoder, database)
    return folder


def test_every_command_that_cannot_run_here_is_taken() -> None:
    for words in set(dict(SHOWN)) - set(RUN):
        name, *rest = words
        if is_own_component(words):
            continue
        if name in ("run", "sweep"):
            composes([word for word in rest if word not in ("-m", "--multirun")], "config")
            continue
        parser = Parser(prog=f"ragtune {name}")
        declare(COMMANDS[name], parser)
        arguments = parser.parse_intermixed_args([word.partition("|")[0] for word in rest])
        if name in ("advise", "label", "score", "graph", "ingest") and not getattr(arguments, "collection", None):
            composes(arguments.overrides, "ingest" if name == "ingest" else "config")


def composes(overrides: list[str], root: str) -> None:
    """The first of the choices of every override is a configuration, and its options are in range."""
    kept = [word for word in overrides if not word.startswith("hydra") and "$(" not in word]
    first = [word if "[" in word or "glob" in word else word.split(",")[0] for word in kept]
    words = [re.sub(r"=glob\(.*\)", "=gar", word) for word in first]
    if root == "ingest":
        plain(composed(words, root))
    else:
        compose(words)


@pytest.fixture
def until_it_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server ends as soon as it serves, as if Ctrl-C had been pressed."""
    start = uvicorn.Server.startup

    async def start_and_end(server: uvicorn.Server, sockets: Any = None) -> None:
        await start(server, sockets)
        server.should_exit = True

    def interrupted(server: socketserver.BaseServer, poll_interval: float = 0.5) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(uvicorn.Server, "startup", start_and_end)
    monkeypatch.setattr(socketserver.BaseServer, "serve_forever", interrupted)


@pytest.mark.parametrize("words", RUN, ids=lambda words: shlex.join(words)[:70])
def test_every_command_that_is_shown_runs(
    words: tuple[str, ...], reader: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [*(filled_in(word, request) for word in words), *quicker(words, request)]
    if words[0] == "compare":
        monkeypatch.chdir(request.getfixturevalue("earlier"))
        command = [found for word in command for found in expanded(word)]
        command[-1] = "ALL" if command[-2:] == ["RUN", "RUN"] else command[-1]  # two runs of the reader's
    if words[0] in ("serve", "label"):
        request.getfixturevalue("until_it_serves")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"why is my bread dense" if "-" in words else b"q")))
    get_reusable_executor().shutdown(wait=True)  # workers of an earlier command are in its folder
    if "resume=true" in words:
        assert main([word for word in command if word != "resume=true"]) == 0
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert main(command) in (0, None)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers


def expanded(word: str) -> list[str]:
    """What a shell makes of a pattern, and the id of a tracked run in place of the page's."""
    if word == "3f9c2a11":
        return [json.loads(Path("results/runs/full/summary.json").read_text("utf-8"))["mlflow_run_id"][:8]]
    return sorted(map(str, Path().glob(word))) if "*" in word else [word]


def filled_in(word: str, request: pytest.FixtureRequest) -> str:
    """The word with what stands here for an address, a model or a run of the reader's."""
    server = request.getfixturevalue("llm_server")
    stands_for = {
        "http://localhost:11434/v1": server.url,
        "https://api.jina.ai/v1/rerank": f"{server.rerank_url('jina')}/v1/rerank",
        "http://localhost:8080": server.rerank_url("tei"),
        "http://localhost:8000/v1": server.rerank_url("vllm"),
    }
    for there, here in stands_for.items():
        word = word.replace(there, here)
    word = "graph" if word == "DIR" else word  # a new folder of ragtune graph
    word = word.split("|")[0] if re.fullmatch(r"\w+(\|\w+)+", word) else word  # one of several
    if re.search("=FOLDER|reranker.model=MODEL|cross-encoder/", word):  # only where needed: to make it takes torch
        word = re.sub(r"FOLDER|MODEL|cross-encoder/[\w-]+", request.getfixturevalue("tiny_cross_encoder"), word)
    return word


HUB = {
    r"signal=.*vectors|experiment=\w+_vectors": "signal.vectors.vectors.embedder.model={encoder}",
    r"reranker=cross_encoder(?!.*reranker\.model)": "reranker.model={cross_encoder}",
    r"reranker\.dialect=voyage": "reranker.url={voyage}/v1/rerank",
    r"reranker\.model=rerank-v3\.5": "reranker.url={cohere}/v2/rerank",
    r"^run .*dataset\.path=DIR(?!.*reranker)": "reranker.scores=DIR/scores/ce.run",
}
"""Where a page means a model from the Hub, a service or the reader's own scores: what stands for it here."""


def quicker(words: tuple[str, ...], request: pytest.FixtureRequest) -> list[str]:
    """Further words that make a command quick, keep it on this machine, and let its server take a free port."""
    if "--help" in words:
        return []
    line, name = shlex.join(words), words[0]
    more = list(REST.get("run" if name == "sweep" else name, []))
    more += ["budgets=[10]"] if name == "study" and "budgets" not in line else []
    more += ["--jobs", "1"] if name == "advise" and len(words) > 1 else []  # one command starts processes
    more += ["hydra.sweeper.n_trials=2"] if "sweeper=tune" in line else []
    if any(OWN_DATA.search(word) for word in words):
        more = [option for option in more if option != "dataset.every=10"]
    server = request.getfixturevalue("llm_server")
    here = {"voyage": server.rerank_url("voyage"), "cohere": server.rerank_url("cohere")}
    for pattern, option in HUB.items():
        if re.search(pattern, line):
            models = {kind: request.getfixturevalue(fixture) for kind, fixture in MODELS.items() if kind in option}
            more.append(option.format(**here, **models))
    return [*more, *(["--port", "0"] if name == "serve" else [])]


MODELS = {"encoder": "tiny_encoder", "cross_encoder": "tiny_cross_encoder"}


def test_every_install_line_works_from_a_checkout() -> None:
    """The package is not published: a page that installs it by name would fetch somebody else's."""
    by_name = r"pip install (?:-\S+ )*'?(ragtune\S*)"
    assert [where for where, text in pages().items() if re.search(by_name, text)] == []
