"""Write a finished run in the form of TIRA, TREC, ranx or a dataset of Hugging Face.

    ragtune export RUN --tira --out FOLDER

| form | files |
|---|---|
| --tira | run.txt, and ir-metadata.yml as https://www.ir-metadata.org describes |
| --trec | run.trec with the same metadata as a comment before the first line, which few programs skip |
| --ranx | run.json, of ranx.Run.from_file |
| --huggingface | README.md, run.parquet, per_query.parquet |

The metadata has hardware, time, memory and energy if the run was measured: ragtune run hydra/callbacks=tirex.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.compare.runs import FinishedRun

FORMS = ("tira", "trec", "ranx", "huggingface")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("run", metavar="RUN", help="folder or MLflow run id")
    parser.add_argument("--out", type=Path, required=True, help="output folder")
    parser.add_argument("--team", default="anonymous", help="actor of the metadata")
    for form in FORMS:
        parser.add_argument(f"--{form}", action="append_const", dest="forms", const=form, help="see above")


def run(arguments: argparse.Namespace) -> int:
    """Write the files and print the folder."""
    from experiments.compare.runs import find_runs
    from ragtune.core.errors import ConfigError

    if not arguments.forms:
        raise ConfigError(f"no form is chosen: allowed are {', '.join(f'--{form}' for form in FORMS)}")
    with tempfile.TemporaryDirectory() as downloads:
        (found,) = find_runs([arguments.run], Path(downloads))
        if arguments.out.resolve() == found.folder.resolve():
            raise ConfigError(f"--out {str(arguments.out)!r} is the run's own folder, whose files would be replaced")
        arguments.out.mkdir(parents=True, exist_ok=True)
        _write(found, arguments.forms, arguments.team, arguments.out)
    sys.stdout.write(f"{arguments.out}\n")
    return 0


def _write(found: FinishedRun, forms: list[str], team: str, out: Path) -> None:
    import pandas as pd
    import yaml

    from experiments.compare.runs import rankings_of
    from experiments.publish.files import write_text

    lines, about = (found.folder / "run.trec").read_text(encoding="utf-8"), _metadata(found, team)
    told = yaml.safe_dump(about, sort_keys=False, allow_unicode=True)
    scores = {query: dict(zip(ids, range(len(ids), 0, -1), strict=True)) for query, ids in rankings_of(found).items()}
    if "tira" in forms:
        write_text(out / "run.txt", lines)
        write_text(out / "ir-metadata.yml", told)
    if "trec" in forms:
        commented = "".join(f"# {line}\n" for line in told.splitlines())
        write_text(out / "run.trec", f"# ir_metadata.start\n{commented}# ir_metadata.end\n{lines}")
    if "ranx" in forms:
        write_text(out / "run.json", json.dumps(scores))
    if "huggingface" in forms:
        rows = [(query, *pair) for query, own in scores.items() for pair in own.items()]
        pd.DataFrame(rows, columns=["query_id", "doc_id", "score"]).to_parquet(out / "run.parquet", index=False)
        found.queries.reset_index().to_parquet(out / "per_query.parquet", index=False)
        parts = [{"config_name": name, "data_files": f"{name}.parquet"} for name in ("run", "per_query")]
        card = yaml.safe_dump({"tags": ["ragtune", "information-retrieval"], "configs": parts})
        write_text(out / "README.md", f"---\n{card}---\n\n# {about['method']['name']}\n\n```yaml\n{told}```\n")


def _metadata(found: FinishedRun, team: str) -> dict[str, Any]:
    """What is known of a run in the words of ir_metadata, with what TIREx tracker has measured of it, if anything."""
    import yaml

    from experiments.publish.described import run_name

    summary, file = found.summary, found.folder / "ir-metadata.yml"
    measured = yaml.safe_load(file.read_text(encoding="utf-8")) if file.is_file() else {}
    source = {"repository": "ragtune", "commit": summary.tags["git_sha"]}
    code = {"executable": {"cmd": shlex.join(["ragtune", "run", *summary.overrides])}, "source": source}
    reported = {"reported measures": list(summary.measures), "baseline": list(summary.baselines or {})}
    method = {"automatic": True, "name": run_name(summary, found.config), "configuration": found.config}
    method["description"] = f"Reranking of {summary.queries} queries under a budget, seed {summary.seed}"
    return {
        "schema version": 0.2,
        "tag": "ragtune",
        "actor": {"team": team},
        "platform": measured.get("platform", {}),
        "implementation": {**measured.get("implementation", {}), **code},
        "resources": {**measured.get("resources", {}), "charged per query": summary.cost_per_query.charged},
        "research goal": {"evaluation": reported},
        "data": {"test collection": {"name": summary.dataset, "sha256": summary.corpus_digest}},
        "method": method,
    }
