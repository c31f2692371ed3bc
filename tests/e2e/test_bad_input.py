"""Bad input: one clear message that names the value and what is allowed, exit code 2, nothing left behind."""

import resource
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from patience import HANG_S

from ragtune.cli.main import main as ragtune

ROOT = Path(__file__).parents[2]

Main = Callable[..., SimpleNamespace]


def refused(ended: SimpleNamespace, *said: str) -> None:
    """The run ended with code 2 and one line that says all of ``said``, and left no file or folder."""
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.startswith("error: ")
    assert len(ended.err.splitlines()) == 1, ended.err
    for words in said:
        assert words in ended.err
    assert list(ended.cwd.rglob("*")) == []


ROUNDS_DEPTH = "retrieval.depth_per_reformulation"

OPTIONS = {
    "an option that a component does not have": (["budget.max_pages=3"], ["unknown option 'budget.max_pages'"]),
    "a group with a slip": (["estimatr=settled"], ["unknown option 'estimatr'", "did you mean estimator?"]),
    "an option that moved to a part": (["scheduler.kappa=1"], ["did you mean scheduler.acquisition.kappa?"]),
    "an option of another choice": (["scheduler.k=5"], ["it is an option of", "scheduler=settled"]),
    "a choice with a slip": (["budget=tigth"], ["'budget/tigth'", "did you mean tight?"]),
    "an option forced in": (["+foo=1"], ["unknown option 'foo': allowed are dataset, retriever"]),
    "an argument forced into a part": (
        ["+scheduler.acquisition.kapa=1"],
        ["unknown option 'scheduler.acquisition.kapa'", "did you mean scheduler.acquisition.kappa?"],
    ),
    "presets that are nowhere": (["--config-dir", "/none"], ["--config-dir /none: there is no such folder"]),
    "options of Hydra swept": (["-m", "hydra.job.name=a,b"], ["hydra.job.name=a,b: Hydra's own options"]),
    "a malformed override": (["estimator=["], ["cannot parse 'estimator=['"]),
    "a needed group deleted": (["~scheduler"], ["scheduler was deleted, but is needed"]),
    "a group written out": (["reranker={a: 1}"], ["'reranker'", "a group is chosen by a name, GROUP=NAME"]),
    "a component without its class": (["~estimator._target_"], ["estimator._target_ is missing", "estimator=NAME"]),
    "a missing value": (["dataset=beir"], ["dataset.path is missing"]),
    "a negative budget": (
        ["budget.max_reranker_docs=-1"],
        ["budget.max_reranker_docs=-1", "greater than or equal to 0"],
    ),
    "two budgets": (["budget=20", "budget=5calls"], ["budget=20 budget=5calls: allowed is one; others have names"]),
    "a run to go on with that is not named": (["resume=true"], ["resume=true", "hydra.run.dir=DIR"]),
    "a sweep to go on with that is not named": (
        ["-m", "resume=true", "seed=1,2"],
        ["resume=true", "hydra.sweep.dir=DIR"],
    ),
    "a pack that is not there": (["dataset=pack:/no.tar"], ["error: pack '/no.tar' does not exist"]),
    "a bad ordering": (["assembler.ordering=best"], ["'best'", "final_score, reranked_first, posterior"]),
    "a depth that is a path": ([f"{ROUNDS_DEPTH}=../../etc/passwd"], [f"{ROUNDS_DEPTH}='../../etc/passwd'", "integer"]),
    "an unknown measure": (["measures=[nDCG@10,Niceness]"], ["Niceness", "ir-measures"]),
    "a group of limits that is nothing": (["failures=null"], ["failures=None", "failures.NAME=VALUE"]),
    "a component of another kind": (
        ["estimator=baseline", "estimator._target_=ragtune.schedulers.greedy.GreedyScheduler"],
        ["estimator._target_", "GreedyScheduler", "BaseEstimator"],
    ),
    "an estimator whose windows the scheduler does not send": (
        ["estimator=knockout"],
        ["estimator=knockout scheduler=greedy", "take scheduler=windows, or choose experiment=knockout"],
    ),
    "a cascade of one reranker": (
        ["scheduler=cascade"],
        [
            "scheduler=cascade: scheduler.limits names no second reranker",
            "+reranker@rerankers.strong=replay +scheduler.limits.strong=5",
        ],
    ),
    "more resamples than memory": (["bootstrap.resamples=1000000000000"], ["resamples=1000000000000", "100000"]),
    "a reference to nothing": (["seed=${foo}"], ["'foo' not found"]),
    "agreement with a live reranker": (
        ["dataset.split=null", "reranker=cross_encoder"],
        ["dataset.split=null: without judgments"],
    ),
    "a sweep of a choice that is not there": (["-m", "scheduler=greedy,nonsense"], ["find 'scheduler/nonsense'"]),
    "a negative seed": (["seed=-1"], ["seed=-1", ">= 0"]),
    "an unknown clock": (["clock=sun"], ["clock='sun'", "auto, virtual, monotonic"]),
    "no processes": (["executor=joblib", "executor.n_jobs=0"], ["executor.n_jobs=0"]),
    "a split that is not there": (["dataset.split=dev"], ["'dev'", "allowed are test"]),
    "a score table that is not there": (["reranker.scores=/no.parquet"], ["'/no.parquet' does not exist"]),
    "no score table": (["reranker.scores=null"], ["reranker.scores is missing", "TREC run, Parquet, CSV or JSON"]),
    "a tracking experiment without a name": (["tracking.experiment="], ["tracking.experiment=''"]),
    "a model that is not there": (
        ["reranker=cross_encoder", "reranker.model=nobody/no-model"],
        ["'nobody/no-model'", "Without a network", "HF_HUB_OFFLINE"],
    ),
}


@pytest.mark.parametrize("case", list(OPTIONS))
def test_a_bad_option_is_refused(main: Main, case: str) -> None:
    overrides, said = OPTIONS[case]
    refused(ended := main(*overrides, tracked="tracking.experiment=" in overrides), *said)
    assert len(ended.err) < 1000


def edit(change: Callable[[list[str]], list[str]], file: Path) -> None:
    file.write_text("".join(change(file.read_text().splitlines(keepends=True))))


FILES: dict[str, tuple[str, Callable[[list[str]], list[str]], list[str]]] = {
    "malformed JSON": ("corpus.jsonl", lambda old: [*old, "{broken\n"], ["corpus.jsonl:13: malformed JSON"]),
    "an empty corpus": ("corpus.jsonl", lambda old: [], ["corpus.jsonl: the corpus is empty"]),
    "no judgments": ("qrels/test.tsv", lambda old: old[:1], ["no judgments"]),
    "judged queries without text": ("queries.jsonl", lambda old: old[1:], ["1 judged queries have no text, e.g. 'q1'"]),
    "a run that names unknown documents": (
        "bm25.run",
        lambda old: [*old, "q1 Q0 ghost 13 0.1 first\n"],
        ["1 of 13 documents of run file", "missing in the corpus, e.g. 'ghost'"],
    ),
    "an empty run": ("bm25.run", lambda old: [], ["bm25.run: no entries"]),
    "a score table that lacks a pair": (
        "scores.run",
        lambda old: [line for line in old if not line.startswith("q1 Q0 blank-1 ")],
        ["scores.run", "query 'q1' and document 'blank-1'"],
    ),
    "scores of another scale": ("scores.run", lambda old: [*old, "q1 Q0 extra 13 7.5 x\n"], ["7.5", "'identity'"]),
}


@pytest.mark.parametrize("case", list(FILES))
def test_a_bad_file_is_refused_by_name_and_line(main: Main, tiny: list[str], collection: Path, case: str) -> None:
    file, change, said = FILES[case]
    edit(change, collection / file)
    refused(main(*tiny), *said)


@pytest.mark.parametrize(
    ("file", "line", "said"),
    [
        ("corpus.jsonl", b'{"_id": "a b", "text": ""}', "corpus.jsonl:13: '_id' is 'a b': an id holds no whitespace"),
        ("queries.jsonl", b"[" * 100_000, "queries.jsonl:5: malformed JSON: nested too deep"),
        ("queries.jsonl", "\n{}".encode("utf-16"), "queries.jsonl:5: not UTF-8"),
        ("bm25.run", b"caf\xe9", "bm25.run:49: not UTF-8 (byte 0xe9"),
        (
            "scores.run.manifest.json",
            b'{"ms_per_doc": 1e999}',
            "scores.run.manifest.json': ms_per_doc=inf: Input should",
        ),
    ],
)
def test_what_no_result_could_hold_leaves_no_file_and_no_tracked_run(
    main: Main, tiny: list[str], collection: Path, file: str, line: bytes, said: str
) -> None:
    with (collection / file).open("ab") as out:
        out.write(line + b"\n")
    refused(ended := main(*tiny, tracked=True), said)
    assert len(ended.err) < 500


def test_a_folder_that_cannot_be_made_is_named(main: Main, tiny: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused(main(*tiny, f"hydra.run.dir={tmp_path}/file/out"), f"{tmp_path}/file/out", "Not a directory")
    refused(main(*tiny, "hydra.run.dir=/proc/out"), "cannot use /proc/out")


@pytest.mark.parametrize("limit", [600, 2_000, 20_000])
def test_a_full_disk_leaves_nothing_half_written(
    tiny: list[str], tmp_path: Path, environment: dict[str, str], limit: int
) -> None:
    """A limit on the size of files stands in for the disk: 600 bytes and 2 kB stop the journal, 20 kB the picture."""
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    run = Path(__file__).parents[2] / "run.py"
    ended = subprocess.run(
        [sys.executable, str(run), *tiny, "tracking=none", "hydra.run.dir=out"],
        cwd=cwd,
        # Python itself would leave a module's compiled form cut short, which no later process could import.
        env={**environment, "RAGTUNE_CACHE": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert ended.returncode == 1, ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("error: no room for ")
    assert "File too large" in ended.stderr
    kept = f"finished queries are kept: repeat the command with hydra.run.dir={cwd / 'out'} resume=true"
    nothing = "no query was finished before: repeat the command"
    assert ended.stderr.endswith(f"; {kept if (cwd / 'out' / 'journal.jsonl').exists() else nothing}\n")
    assert "Traceback" not in ended.stderr
    left = [file.name for file in cwd.rglob("*") if file.is_file()]
    assert set(left) <= {"journal.jsonl"}  # whole lines only: what is finished can be resumed
    for file in cwd.rglob("journal.jsonl"):
        assert file.read_bytes().endswith(b"\n")


def test_anything_else_is_exit_code_1_with_a_traceback(
    main: Main, tiny: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from experiments.cli import experiment

    def defect(*args: object, **options: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(experiment, "summarize", defect)
    ended = main(*tiny)
    assert ended.code == 1
    assert "Traceback" in ended.err
    assert ended.err.splitlines()[-1] == "error: ZeroDivisionError: a defect"
    assert list(ended.cwd.glob("results/runs/*/journal.jsonl"))  # the journal: nothing that was paid for is lost


NAMED = {
    "ingest dataset=demo --chunk-tokens 5": "--chunk-tokens: allowed with folders only",
    "search tea --collection c --id foo": "--id: allowed with --table only",
    "search tea --collection c --mode lexical --fusion scores": "--fusion: allowed with --mode hybrid only",
    "search --fit q.jsonl --collection c -k 3": "-k: allowed without --fit only",
    "search '' --collection c": "a question or --fit FILE",
    "search tea --collection c --embedder hashing --embedder-model m": "with --embedder sentence_transformer or",
    "graph --out g --model m": "--model: allowed with --kind dense only",
    "conformance --reranker none": "--reranker: allowed with --url only",
    "advise --jobs 0": "--jobs=0: allowed is a whole number >= 1, or -1 for one a core",
    "leaderboard run --date yesterday": "--date yesterday: allowed is a day such as 2026-11-28",
    "leaderboard show /nope": "/nope: there is no such folder",
    "study --config shared": "shared.yaml: data is missing: give it on the command line, --data DIR",
}


@pytest.mark.parametrize("words", NAMED)
def test_an_option_that_does_nothing_or_cannot_be_used_is_named(words: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert ragtune(shlex.split(words)) == 2
    assert NAMED[words] in (refusal := capfd.readouterr().err)
    assert refusal.count("\n") == 1


@pytest.mark.parametrize("words", ["--help", "doctor"])
def test_output_for_which_there_is_no_room_is_told_in_one_line(words: str) -> None:
    command = f"{sys.executable} -m ragtune {words} >/dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=HANG_S, cwd=ROOT)
    assert (done.returncode, done.stderr) == (1, "error: no room for a file: No space left on device\n")


@pytest.mark.parametrize("way", ["--config-dir", "hydra.searchpath"])
def test_a_preset_from_elsewhere_is_refused_before_hydra_calls_it(
    way: str, tmp_path: Path, run_here: Callable[..., SimpleNamespace]
) -> None:
    (tmp_path / "conf" / "experiment").mkdir(parents=True)
    call = f"hydra: {{callbacks: {{x: {{_target_: os.mkdir, path: {tmp_path}/made}}}}}}\n"
    (tmp_path / "conf" / "experiment" / "evil.yaml").write_text("# @package _global_\n" + call)
    where = [way, f"{tmp_path}/conf"] if way[0] == "-" else [f"{way}=[file://{tmp_path}/conf]"]
    ended = run_here(*where, "experiment=evil", "tracking=none", "hydra.run.dir=out", cwd=tmp_path)
    assert ended.code == 2
    assert "hydra.callbacks._target_='os.mkdir': allowed are classes of" in ended.err
    assert not (tmp_path / "made").exists()


def test_a_signal_without_a_name_is_told_of_the_line_that_gives_one(
    tmp_path: Path, run_here: Callable[..., SimpleNamespace]
) -> None:
    (tmp_path / "conf" / "signal").mkdir(parents=True)
    (tmp_path / "conf" / "signal" / "mine.yaml").write_text("_target_: ragtune.signals.lexical.LexicalSignal\n")
    ended = run_here(
        "--config-dir", f"{tmp_path}/conf", "signal=mine", "tracking=none", "hydra.run.dir=out", cwd=tmp_path
    )
    assert ended.code == 2
    assert "begins with the line '# @package signal.NAME'" in ended.err
    assert "Traceback" not in ended.err
