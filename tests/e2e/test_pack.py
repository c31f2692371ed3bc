"""ragtune pack: a collection in one file gives the same results elsewhere, and a file that was changed is refused."""

from __future__ import annotations

import os
import shutil
import tarfile
import threading
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pyterrier as pt
import pytest

from ragtune.cli.main import main as ragtune

LICENCE = Path(__file__).parents[2] / "LICENSE"
Main = Callable[..., SimpleNamespace]


class Folder(pt.Artifact):
    """What PyTerrier unpacks, whatever it is."""


def packed(folder: Path, *words: str) -> Path:
    assert ragtune(["pack", "--out", str(folder), "--licence", str(LICENCE), *words]) == 0
    (file,) = folder.iterdir()
    return file


def test_a_pack_has_the_same_bytes_each_time_and_gives_the_same_run_by_its_url(
    main: Main, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTERRIER_HOME", str(tmp_path / "pyterrier"))
    file, again = (packed(tmp_path / name, "dataset=demo") for name in ("packs", "again"))
    assert (file.name, file.read_bytes()) == (again.name, again.read_bytes())
    handler = partial(SimpleHTTPRequestHandler, directory=file.parent)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/{file.name}"
        for name, dataset in {"demo": "demo", "url": f"pack:{url}"}.items():
            monkeypatch.setenv("RAGTUNE_CACHE", str(tmp_path / f"cache-{name}"))
            assert main(f"dataset={dataset}", "verbosity=0", f"hydra.run.dir={tmp_path / name}").code == 0
        assert len((Folder.from_url(url).path / "corpus.jsonl").read_text().splitlines()) == 341
        server.shutdown()
    assert (tmp_path / "url" / "run.trec").read_bytes() == (tmp_path / "demo" / "run.trec").read_bytes()
    (bare := tmp_path / "bare.tar").touch()
    assert ragtune(["pack", "--out", str(tmp_path), "--licence", str(bare), "dataset=demo"]) == 2
    with tarfile.open(bare, "w") as tar:
        tar.addfile(tarfile.TarInfo("pt_meta.json"))
    assert "it has no LICENSE" in main(f"dataset=pack:{bare}").err


HARMS = {"../escaped": "outside", "more": "more is not what", "zeros": "more bytes than it has", "": "LICENSE is not"}
HARMS |= {"pt_meta.json": "larger than 1,048,576 bytes", "header": "a header of it is too large"}
"""What is added to a pack, or nothing where one byte of it is changed, and how it is refused."""


def test_a_pack_without_texts_is_replayed_and_a_harmful_one_is_refused_in_one_line(
    main: Main, tiny: list[str], tmp_path: Path
) -> None:
    file = packed(tmp_path / "packs", "--no-texts", *tiny)
    recorded = ["retriever=runs", "retriever.paths=${dataset.candidates}", "estimator=baseline"]
    for name, words in {"files": tiny, "pack": [f"dataset=pack:{file}", *recorded]}.items():
        assert main(*words, "verbosity=0", f"hydra.run.dir={tmp_path / name}").code == 0
    assert (tmp_path / "pack" / "run.trec").read_bytes() == (tmp_path / "files" / "run.trec").read_bytes()
    sound = file.read_bytes()
    for member, harm in HARMS.items():
        file.write_bytes(sound if member else sound.replace(b"Apache", b"apache", 1))
        with tarfile.open(file, "a") as tar:
            entry = tarfile.TarInfo(member)
            entry.pax_headers = {"GNU.sparse.size": str(2**40), "GNU.sparse.map": "0,1"} if member == "zeros" else {}
            if member in ("pt_meta.json", "header"):
                entry.type, entry.size = tarfile.XHDTYPE if member == "header" else tarfile.REGTYPE, 2**21
                tar.fileobj.write(entry.tobuf(tarfile.GNU_FORMAT))
                tar.fileobj.seek(2**21, os.SEEK_CUR)
            elif member:
                tar.addfile(entry)
        renamed = shutil.copy(file, tmp_path / "renamed.tar")
        for given, words in {file: "SHA-256 is not that of its name", renamed: harm}.items():
            ended = main(f"dataset=pack:{given}")
            assert (ended.code, ended.err.count("\n")) == (2, 1), (member, ended.err)
            assert words in ended.err, member
    assert not list(tmp_path.rglob("escaped"))
