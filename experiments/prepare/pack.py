"""Writes a collection with its candidates and recorded scores into one file, the same bytes each time."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from experiments.config.packs import META
from experiments.replay.build import Session, build_session
from ragtune import __version__
from ragtune.core.errors import ConfigError
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import RAGtuneContext
from ragtune.data.caches.diskcache import sha256_of
from ragtune.rerankers.score_table import manifest_of


def write_pack(config: Mapping[str, Any], out: Path, licence: Path, *, texts: bool) -> Path:
    """Write the pack of a configuration's collection, first stage and recorded scores, and return its file.

    Args:
        config: resolved, with recorded scores.
        out: a folder, in which the file is named by the collection and its SHA-256.
        licence: a text file that says who may use the content.
        texts: whether the documents' texts are in it; without them only the recorded candidates can be replayed.

    Raises:
        ConfigError: if there are no recorded scores, or no licence.
    """
    session = build_session(config)
    scores = config["reranker"].get("scores")
    if not scores or not session.rerankers["default"].facts.is_recorded:
        raise ConfigError("a pack holds recorded scores: ragtune score makes them, reranker=replay reads them")
    if not licence.is_file():
        raise ConfigError(f"--licence {str(licence)!r} does not exist: allowed is a text file")
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out, prefix=".new-") as scratch:
        folder, archive = Path(scratch, "content"), Path(scratch, "pack.tar")
        (folder / "qrels").mkdir(parents=True)
        for name, lines in _text_files(session, config["retrieval"]["original_query_depth"], texts=texts):
            with (folder / name).open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(lines)
        shutil.copyfile(licence, folder / "LICENSE")
        table = shutil.copyfile(scores, folder / f"scores{''.join(Path(scores).suffixes)}")
        if manifest := manifest_of(Path(scores)):
            shutil.copyfile(manifest, f"{table}.manifest.json")
        files = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
        name = session.dataset.name.removesuffix("/test").replace("/", "-")
        about = {"type": "test_collection", "format": "ragtune", "package_hint": "ragtune", "name": name}
        digests = {file: sha256_of(folder / file) for file in files}
        (folder / META).write_text(json.dumps({**about, "ragtune": __version__, "files": digests}, indent=2) + "\n")
        with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:  # plain, as PyTerrier reads it
            for member in [META, *files]:
                entry = tarfile.TarInfo(member)  # of no time and no user
                entry.size = (folder / member).stat().st_size
                with (folder / member).open("rb") as content:
                    tar.addfile(entry, content)
        return archive.rename(out / f"{name}-{sha256_of(archive)}.tar")


def _text_files(session: Session, depth: int, *, texts: bool) -> Iterator[tuple[str, Iterator[str]]]:
    """The names of the text files, with their lines."""
    dataset, shown = session.dataset, int(texts)
    yield (
        "corpus.jsonl",
        (_json(_id=each.id, title=each.title * shown, text=each.text * shown) for each in dataset.corpus),
    )
    yield "queries.jsonl", (_json(_id=query_id, text=text) for query_id, text in dataset.queries.items())
    rows = ((query_id, *row) for query_id, grades in dataset.qrels.items() for row in grades.items())
    yield "qrels/test.tsv", (f"{query_id}\t{doc_id}\t{grade}\n" for query_id, doc_id, grade in rows)
    yield "candidates.run", _candidates(session, depth)


def _json(**record: str) -> str:
    return json.dumps(record, ensure_ascii=False) + "\n"


def _candidates(session: Session, depth: int) -> Iterator[str]:
    for query_id, query in session.dataset.queries.items():
        context = RAGtuneContext(query=query, query_id=query_id, tracker=CostBudget.unlimited().create_tracker())
        for rank, document in enumerate(session.parts["retriever"].retrieve(context, depth), start=1):
            yield f"{query_id} Q0 {document.id} {rank} {document.score!r} ragtune\n"
