"""Write a collection, its candidates and its recorded scores into one file, to publish and to replay elsewhere.

    ragtune pack --out packs --licence LICENSE dataset=demo
    ragtune run "dataset=pack:$(ls packs/*.tar)"

The file is named by its SHA-256, and the same collection gives the same bytes. It is a plain tar, as PyTerrier's
artifacts are. A reader refuses a file that was changed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from experiments.commands import add_overrides

if TYPE_CHECKING:
    from experiments.replay.build import Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--out", type=Path, required=True, help="folder of the file")
    parser.add_argument("--licence", type=Path, required=True, help="text file: who may use the content, and how")
    parser.add_argument("--no-texts", action="store_true", help="leave the documents' texts out; ids stay")
    add_overrides(parser, "dataset, retriever and recorded scores, as for ragtune run")


def run(arguments: argparse.Namespace) -> int:
    """Write the file and print its name."""
    from experiments.config.compose import compose
    from experiments.replay.build import build_session
    from ragtune.core.errors import ConfigError

    config = compose(arguments.overrides)
    scores, session = config["reranker"].get("scores"), build_session(config)
    if not scores or not session.rerankers["default"].facts.is_recorded:
        raise ConfigError("a pack holds recorded scores: ragtune score makes them, reranker=replay reads them")
    if not arguments.licence.is_file() or not arguments.licence.read_bytes().strip():
        raise ConfigError(f"--licence {str(arguments.licence)!r} does not exist or is empty: allowed is a text file")
    arguments.out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=arguments.out, prefix=".new-") as scratch:
        folder = Path(scratch, "content")
        (folder / "qrels").mkdir(parents=True)
        shutil.copyfile(arguments.licence, folder / "LICENSE")
        depth = config["retrieval"]["original_query_depth"]
        for name, lines in _text_files(session, depth, int(not arguments.no_texts)):
            with (folder / name).open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(lines)
        sys.stdout.write(f"{_packed(session.dataset.name, folder, Path(scores), arguments.out)}\n")
    return 0


def _text_files(session: Session, depth: int, texts: int) -> Iterator[tuple[str, Iterator[str]]]:
    """The names of the text files with their lines; ``texts`` is 0 without the documents' texts."""
    dataset = session.dataset
    yield "corpus.jsonl", (_json(_id=one.id, title=one.title * texts, text=one.text * texts) for one in dataset.corpus)
    yield "queries.jsonl", (_json(_id=query_id, text=text) for query_id, text in dataset.queries.items())
    rows = ((query_id, *row) for query_id, grades in dataset.qrels.items() for row in grades.items())
    yield "qrels/test.tsv", (f"{query_id}\t{doc_id}\t{grade}\n" for query_id, doc_id, grade in rows)
    yield "candidates.run", _candidates(session, depth)


def _json(**record: str) -> str:
    return json.dumps(record, ensure_ascii=False) + "\n"


def _candidates(session: Session, depth: int) -> Iterator[str]:
    from ragtune.core.request.budget import CostBudget
    from ragtune.core.request.context import RAGtuneContext

    for query_id, query in session.dataset.queries.items():
        context = RAGtuneContext(query=query, query_id=query_id, tracker=CostBudget.unlimited().create_tracker())
        for rank, document in enumerate(session.parts["retriever"].retrieve(context, depth), start=1):
            yield f"{query_id} Q0 {document.id} {rank} {document.score!r} ragtune\n"


def _packed(dataset: str, folder: Path, scores: Path, out: Path) -> Path:
    """The file of what a folder holds, and of the score table with its manifest."""
    from experiments.config.packs import META
    from ragtune import __version__
    from ragtune.data.caches.diskcache import sha256_of
    from ragtune.rerankers.score_table import manifest_of

    shutil.copyfile(scores, folder / "scores")  # its content decides its form
    if manifest := manifest_of(scores):
        shutil.copyfile(manifest, folder / "scores.manifest.json")
    files = {file.relative_to(folder).as_posix(): sha256_of(file) for file in folder.rglob("*") if file.is_file()}
    name = dataset.removesuffix("/test").replace("/", "-")
    meta = {"type": "test_collection", "format": "ragtune", "name": name, "ragtune": __version__, "files": files}
    (folder / META).write_text(json.dumps(meta, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    archive = folder.with_name("pack.tar")
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:
        for member in [META, *sorted(files)]:
            entry = tarfile.TarInfo(member)  # without time and user
            entry.size = (folder / member).stat().st_size
            with (folder / member).open("rb") as content:
                tar.addfile(entry, content)
    return archive.rename(out / f"{name}-{sha256_of(archive)}.tar")
