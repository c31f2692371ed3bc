"""``scripts/ingest.py`` and the main job on what it made: real commands, a real PostgreSQL."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import without_progress
from patience import HANG_S, wait_until
from postgres_server import fresh_dsn

from experiments.replay.build import _load_dataset
from ragtune.canonical.chunking import chunk
from ragtune.canonical.ingestion import ingest
from ragtune.canonical.sources import DocumentFiles
from ragtune.canonical.store.database import PostgresDatabase
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.canonical.types import StoreCounts
from ragtune.cli.main import main as ragtune
from ragtune.embedders.hashing import HashingEmbedder

Run = Callable[..., SimpleNamespace]


@pytest.fixture
def dsn(monkeypatch: pytest.MonkeyPatch) -> str:
    dsn = fresh_dsn()
    monkeypatch.setenv("RAGTUNE_DSN", dsn)
    return dsn


@pytest.fixture
def tiny_dataset(collection: Path) -> list[str]:
    return ["dataset=beir", f"dataset.path={collection}"]


@pytest.fixture
def call(tiny_dataset: list[str], dsn: str, capfd: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> SimpleNamespace:
        _load_dataset.cache_clear()
        capfd.readouterr()
        code = ragtune(["ingest", *tiny_dataset, *arguments])
        out, err = capfd.readouterr()
        return SimpleNamespace(code=code, out=out, err=err, lines=out.splitlines())

    return call


def stored(dsn: str, name: str, dims: int = 256) -> StoreCounts:
    with PostgresDatabase(dsn) as database:
        return database.open(name, HashingEmbedder(dims)).counts()


def test_a_parallel_sweep_runs_on_what_was_ingested(run: Run, folder: Path) -> None:
    """With the defaults: an embedded server below results/, started and stopped by whoever uses it."""
    made = run("dataset=demo", "store=postgres", script="scripts/ingest.py", cwd=folder)
    assert (made.code, made.err) == (0, "")
    assert "341 documents (0 unchanged, 0 without text, 0 pruned), 341 chunks: 341 inserted, 0 updated" in made.out
    assert not (folder / "results" / "postgres" / "pgdata" / "postmaster.pid").exists()

    parallel = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "tracking=none", "hydra.sweep.dir=sweep"]
    swept = run("-m", "retriever=postgres", "estimator=baseline", "budget=zero,tight", *parallel, cwd=folder)
    assert (swept.code, swept.err) == (0, "")
    summary = json.loads((folder / "sweep" / "1" / "summary.json").read_text())
    assert 900 < summary["cost"]["charged"]["docs"] <= 50 * 20  # some queries have fewer lexical matches
    assert summary["tags"]["retriever"] == "postgres"
    assert not (folder / "results" / "postgres" / "pgdata" / "postmaster.pid").exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_ingestion_goes_on_where_it_was(
    tiny_dataset: list[str], start: Run, run_here: Run, dsn: str, tmp_path: Path, number: int
) -> None:
    slow = [*tiny_dataset, "embedder._target_=misbehaving.SlowEmbedder", "batch=1", "collection=tiny"]
    log = tmp_path / "log"
    options = {"script": "scripts/ingest.py", "cwd": tmp_path, "EMBED_LOG": str(log), "RAGTUNE_DSN": dsn}
    process = start(*slow, **options, HANG_AT="anchor")
    wait_until(lambda: process.poll() is not None or (log.exists() and "anchor" in log.read_text()))
    os.killpg(process.pid, number)
    _, err = process.communicate(timeout=HANG_S)
    if number == signal.SIGINT:
        said = "error: interrupted; finished batches are kept: repeat the command to go on\n"
        assert (process.returncode, without_progress(err)) == (130, said)
    kept = stored(dsn, "tiny")
    assert kept.documents == 4  # the batches before

    log.unlink()
    resumed = run_here(*slow, **{**options, "RAGTUNE_CACHE": str(tmp_path / "no vectors here")})
    assert (resumed.code, resumed.err) == (0, "")
    assert stored(dsn, "tiny") == StoreCounts(documents=11, chunks=11)
    left = 11 - kept.chunks
    assert f"12 documents (4 unchanged, 1 without text, 0 pruned), 11 chunks: {left} inserted" in resumed.out
    embedded = log.read_text().splitlines()
    assert len(embedded) <= left  # the duplicate is embedded once
    assert not any("The heart pumps" in text for text in embedded)


def test_a_changed_document_is_replaced_and_one_that_is_gone_is_pruned_if_asked(
    call: Run, collection: Path, dsn: str
) -> None:
    cut = ["chunk.max_tokens=8", "chunk.method=tokens", "collection=tiny"]
    call(*cut)
    before = stored(dsn, "tiny")
    rows = [json.loads(line) for line in (collection / "corpus.jsonl").read_text().splitlines()]
    rows[0]["text"], rows[1]["text"] = "Short.", ""
    kept = [row for row in rows if row["_id"] != "bread-1"]
    (collection / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept))
    done = call(*cut)
    assert done.code == 0
    assert "11 documents (8 unchanged, 2 without text, 0 pruned)" in done.out
    assert stored(dsn, "tiny").documents == before.documents - 1  # the emptied one
    done = call(*cut, "prune=true")
    assert "(9 unchanged, 2 without text, 1 pruned)" in done.out
    assert stored(dsn, "tiny").documents == before.documents - 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["chunk.max_tokens=0"], "chunk.max_tokens=0: Input should be greater than or equal to 1"),
        (["collection=not a name"], "collection name='not a name'"),
        (["+whatever=1"], "unknown option 'whatever': allowed are dataset, store, embedder, collection"),
        (["store.dsn=postgresql://["], "dsn"),
        (["--prune"], "--prune: allowed with folders only; the options of datasets are NAME=VALUE"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(call: Run, dsn: str, arguments: list[str], said: str) -> None:
    done = call(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert len(done.err.splitlines()) == 1
    assert said in done.err
    with PostgresDatabase(dsn) as database:
        assert database.collections() == []


def test_a_server_that_is_not_there_is_exit_code_1_without_its_password(call: Run) -> None:
    done = call("store.dsn=postgresql://me:secret@127.0.0.1:9/none")
    assert (done.code, done.out) == (1, "")
    assert len(done.err.splitlines()) == 1
    assert "secret" not in done.err


def test_a_collection_that_does_not_serve_the_job_is_refused_with_what_to_do(
    call: Run, main: Run, tiny: list[str], collection: Path
) -> None:
    common = [*(one for one in tiny if not one.startswith("retriever")), "retriever=postgres"]
    rows = (collection / "corpus.jsonl").read_text().splitlines(keepends=True)
    (collection / "corpus.jsonl").write_text("".join(rows[:6]))
    call("collection=tiny")
    (collection / "corpus.jsonl").write_text("".join(rows))
    for arguments, said in (
        ([], "ragtune ingest dataset=... store=postgres collection=tiny-"),
        (["retriever.collection=nope"], "no collection 'nope'"),
        (["retriever.collection=tiny", "retriever.mode=fuzzy"], "retriever.mode='fuzzy'"),
        (["retriever.collection=tiny"], "'tiny' lacks 5 documents of the dataset and has 0 others, e.g. 'bread-2'"),
        (["retriever.collection=tiny", "dataset.path=${shipped:}"], "has 6 others, e.g."),
    ):
        _load_dataset.cache_clear()
        refused = main(*common, *arguments)
        assert refused.code == 2
        assert said in refused.err
        assert len(refused.err.splitlines()) == 1


def test_folders_are_mirrored_searched_and_only_bad_files_are_left_out(
    tmp_path: Path, dsn: str, capfd: pytest.CaptureFixture[str]
) -> None:
    docs = tmp_path / "docs"
    (docs / "more").mkdir(parents=True)
    (docs / "tea.md").write_text("# Tea\n\n## Green\n\nGreen tea wants water of 80 degrees.\n")
    (docs / "page.html").write_text("<head><script>x</script></head><h1>Milk</h1><p>Milk is <b>white</b>.")
    (docs / "more" / "latin.txt").write_bytes("Café au lait is hot coffee with much milk.".encode("latin-1"))
    (docs / "more" / "rows.jsonl").write_text('{"_id": "b1", "title": "Bread", "text": "It is baked."}\nnot json\n')
    (docs / "a.pdf").write_bytes(_pdf("Ships sail at sea."))
    for name, data in (
        ("empty.txt", b""),
        ("binary.md", b"\x7fELF\0\0"),
        ("cyrillic.txt", "привет мир".encode("cp1251")),
    ):
        (docs / name).write_bytes(data)
    (docs / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")

    def call(*words: str) -> tuple[str, list[str]]:
        capfd.readouterr()
        assert ragtune([*words, "--collection", "docs"]) == 0
        out, err = capfd.readouterr()
        return out, [line for line in err.splitlines() if line.startswith(("noted", "skipped"))]

    out, left_out = call("ingest", str(docs))
    assert out.startswith("docs: 5 documents (0 unchanged, 0 without text, 0 pruned)")
    assert [line.split(": ")[1] for line in left_out if line.startswith("skipped")] == [
        *("docs/binary.md", "docs/broken.pdf", "docs/cyrillic.txt", "docs/empty.txt", "docs/more/rows.jsonl:2")
    ]
    assert "noted: docs/more/latin.txt: not UTF-8, read as Latin-1" in left_out
    found = {
        question: call("search", question, "-k", "1")[0]
        for question in ("green teas", "white milk", "sailing", "baked bread", "café")
    }
    assert found["green teas"].startswith("1. docs/tea.md  Tea > Green  (lexical ")
    assert "*Green* *tea* wants water" in found["green teas"]
    assert found["white milk"].startswith("1. docs/page.html  Milk  (")
    assert found["sailing"].startswith("1. docs/a.pdf  page 1  (")
    assert found["baked bread"].startswith("1. docs/more/rows.jsonl#b1  Bread  (")
    assert found["café"].startswith("1. docs/more/latin.txt  (")

    (docs / "tea.md").write_text("# Tea\n\nBlack tea wants boiling water.\n")
    (docs / "page.html").unlink()
    (docs / "more" / "latin.txt").write_bytes(b"\0")  # it may be half-written: what was known of it stays
    out, _ = call("ingest", str(docs))
    assert out.startswith("docs: 3 documents (2 unchanged, 0 without text, 1 pruned)")
    assert json.loads(call("search", "hot coffee", "--json")[0])["results"][0]["doc_id"] == "docs/more/latin.txt"

    (tmp_path / "other" / "docs").mkdir(parents=True)
    (tmp_path / "other" / "docs" / "x.md").write_text("x")
    assert ragtune(["ingest", str(tmp_path / "other" / "docs"), "--collection", "docs"]) == 2  # it would delete all

    for line in ('{"question": "boiling", "docs": "docs/tea.md"}', '{"question": "boiling", "docs": {"d": 1e999}}'):
        (tmp_path / "bad.jsonl").write_text(line)
        assert ragtune(["search", "--collection", "docs", "--fit", str(tmp_path / "bad.jsonl")]) == 2
    (tmp_path / "questions.jsonl").write_text('{"question": "boiling", "docs": ["docs/tea.md"]}\n')
    out, _ = call("search", "--fit", str(tmp_path / "questions.jsonl"))
    assert "hybrid, rrf 0.5 " in out
    answer = json.loads(call("search", "boiling tea", "--json")[0])
    assert (answer["mode"], answer["fusion"], answer["results"][0]["sources"].keys()) == (
        *("hybrid", "fitted"),
        {"lexical", "vector"},
    )


def test_only_what_has_gone_is_pruned_and_nothing_is_lost_in_silence(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    for folder in (docs / "closed", tmp_path / "one", tmp_path / "two"):
        folder.mkdir(parents=True)
    for name in ("a#b.txt", "c:d.txt", "closed/e.md", b"f\xff.md", b"f\xfe.md", "gone.md"):
        Path(os.fsdecode(os.fsencode(docs) + b"/" + os.fsencode(name))).write_text("tea")
    (docs / "rows.jsonl").write_text('{"id": 1, "text": "tea"}\n{"id": 1, "text": "milk"}\n')
    store = MemoryDatabase().open("docs", HashingEmbedder(), create=True)

    def mirror(*roots: Path, prune: bool = False) -> DocumentFiles:
        sources = DocumentFiles(roots)
        ingest(sources, store, chunk, prune=lambda doc_id: sources.is_gone(doc_id, prune))
        return sources

    assert mirror(docs).skipped == {"docs/rows.jsonl:2": "the id 'docs/rows.jsonl#1' comes twice"}
    names = ["a#b.txt", "c:d.txt", "closed/e.md", r"f\xfe.md", r"f\xff.md", "gone.md", "rows.jsonl#1"]
    assert store.doc_ids() == [f"docs/{name}" for name in names]
    for name in ("a#b.txt", "c:d.txt"):
        (docs / name).write_text("")
    (docs / "gone.md").unlink()
    (docs / "closed").chmod(0)
    is_skipped = "docs/closed/" in mirror(docs).skipped
    (docs / "closed").chmod(0o700)
    assert is_skipped or os.geteuid() == 0
    assert store.doc_ids() == [f"docs/{name}" for name in names if name != "gone.md"]

    for name in ("one", "two"):
        (tmp_path / name / "corpus.jsonl").write_text(f'{{"_id": "{name}", "text": "tea"}}\n')
    mirror(tmp_path / "one", tmp_path / "two", prune=True)
    assert store.doc_ids() == ["one", "two"]
    (tmp_path / "one" / "corpus.jsonl").write_text("damaged\n")
    mirror(tmp_path / "one", tmp_path / "two", prune=True)
    assert store.doc_ids() == ["one", "two"]


def _pdf(text: str) -> bytes:
    """A file of one page."""
    stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        f"<</Length {len(stream)}>>stream\n{stream}\nendstream",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    body = "".join(f"{number} 0 obj{one}endobj\n" for number, one in enumerate(objects, start=1))
    return f"%PDF-1.4\n{body}trailer<</Root 1 0 R/Size 6>>\nstartxref\n0\n%%EOF".encode()
