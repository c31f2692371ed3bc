"""ragtune export, and the files that it starts from, read by the programs that they are for."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import yaml
from tira.check_format import check_format

from ragtune.cli.main import main as ragtune


def test_an_exported_run_is_read_by_those_it_is_for(
    main: Callable[..., SimpleNamespace], tiny: list[str], tmp_path: Path
) -> None:
    from datasets import load_dataset

    run, out = tmp_path / "run" / "run.trec", tmp_path / "out"
    assert main("hydra/callbacks=tirex", *tiny, "verbosity=0", f"hydra.run.dir={run.parent}").code == 0
    assert ragtune(["export", str(run.parent), "--tira", "--trec", "--ranx", "--huggingface", "--out", str(out)]) == 0
    status, said = check_format(out, "run-with-metadata")
    assert status.name == "OK", said
    about = yaml.safe_load((out / "ir-metadata.yml").read_text())
    assert {"hardware", "operating system"} <= set(about["platform"])
    assert {"runtime", "cpu", "ram", "gpu", "charged per query"} <= set(about["resources"])
    header, _, lines = (out / "run.trec").read_text().partition("# ir_metadata.end\n")
    assert yaml.safe_load("".join(line.removeprefix("# ") for line in header.splitlines(True)[1:])) == about
    assert lines == run.read_text()
    read = (
        f"import ranx; print(*(ranx.Run.from_file(file).run for file in {[str(out / 'run.json'), str(run)]}), sep='!')"
    )
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}  # ranx compiles for 20 s otherwise
    by_ranx = subprocess.run([sys.executable, "-c", read], env=environment, capture_output=True, text=True, check=True)
    exported, own = by_ranx.stdout.strip().split("!")
    assert exported == own
    assert "heart-1" in own
    rows = load_dataset(str(out), "run", cache_dir=str(tmp_path / "cache"))["train"]
    assert [row["doc_id"] for row in rows] == [line.split()[2] for line in lines.splitlines()]
    assert ragtune(["export", str(run.parent), "--trec", "--out", str(run.parent)]) == 2  # it would replace the run
    run.write_text(lines[:-3])
    assert ragtune(["export", str(run.parent), "--trec", "--out", str(out)]) == 2
