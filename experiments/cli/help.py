"""The text of ``--help``: every choice with the first sentence of its file in ``conf/``."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

import yaml

from experiments.config.paths import CONF

_WIDTH, _INDENT = 110, 26
_PLACES = {
    "acquisition": "scheduler.acquisition",
    "vectors": "estimator.vectors",
    "embedder": "reranker.embedder",
    "fusion": "retriever.fusion",
    "llm": "reranker.llm",
}
"""Groups of parts, and the place where a part of each usually goes."""

_USAGE = """\
Replay a collection's queries under a hard budget, and compare with fixed depth.

  ragtune run [GROUP=CHOICE | OPTION=VALUE] ...            one run: a table, files, an MLflow run
  ragtune sweep GROUP=CHOICE,CHOICE [OPTION=V,V] ...       every combination, one table: ragtune sweep --help

In a checkout, python run.py is the same as ragtune run, and needs no installation of RAGtune itself.
--config-dir FOLDER adds configuration files of your own to those of conf/.

Examples
  ragtune run experiment=settled budget=20                 a policy by its name, 20 documents a query
  ragtune run budget=0.002usd reranker.usd_per_doc=0.0001  or budget=3calls, 500ms, 4000tokens
  ragtune run dataset=beir dataset.path=DIR retriever=runs retriever.paths=DIR/bm25.run \\
      reranker.scores=DIR/ce.run                           your collection, your first stage, your scores
  ragtune run hydra.run.dir=DIR resume=true                goes on with an interrupted run"""

_USAGE_OF_SWEEP = """\
Runs every combination of the choices and values that are separated by commas, and compares them in one table.

  ragtune sweep GROUP=CHOICE,CHOICE [OPTION=V,V] ...       the same as ragtune run -m

Each combination is a job: a run with its own folder and MLflow run, below a parent run that has the table. Every job is
compared with fixed depth under the same budget, by corrected p-values; ragtune compare tests jobs against each other.
A failed job is reported and leaves the others alone; repeat the command with resume=true to run it again.

Examples
  ragtune sweep experiment=uncertainty,gar budget=5,10,20  six jobs
  ragtune sweep 'experiment=glob(s*)' budget=tight         every preset whose name begins with s
  ragtune sweep experiment=uncertainty 'estimator.trust=range(0.1,1,0.2)'
  ragtune sweep budget=10 hydra/sweeper=tune 'scheduler.acquisition.kappa=interval(0,2)'    Optuna chooses the values
  ragtune sweep experiment=fixed_depth,settled hydra/launcher=joblib                        jobs side by side
  ragtune sweep hydra.sweep.dir=DIR resume=true experiment=uncertainty,gar                  goes on with a sweep"""


def help_text(options: str, *, is_sweep: bool = False) -> str:
    """What ``--help`` of a run or a sweep prints."""
    defaults = {"experiment": None} | _defaults()
    return "\n".join(
        [
            _USAGE_OF_SWEEP if is_sweep else _USAGE,
            "",
            "Choices, GROUP=CHOICE (* if unsaid); an experiment chooses estimator, scheduler and order at once",
            *(line for group in defaults for line in _group(group, defaults[group])),
            "",
            "Parts of components, GROUP@PLACE=CHOICE, e.g. acquisition@scheduler.acquisition=thompson",
            *(line for group, place in _PLACES.items() for line in _group(group, None, place)),
            "",
            "Options as they are with these choices, OPTION=VALUE",
            "",
            options,
        ]
    )


def _defaults() -> dict[str, str | None]:
    entries = yaml.safe_load((CONF / "config.yaml").read_text(encoding="utf-8"))["defaults"]
    chosen = [pair for entry in entries if isinstance(entry, dict) for pair in entry.items()]
    return {group: choice for group, choice in chosen if "hydra/" not in group}


def _group(group: str, default: str | None, place: str | None = None) -> Iterator[str]:
    yield f"\n{group}" + (f"@{place}" if place else "")
    for file in sorted((CONF / group).glob("*.yaml")):
        mark = "*" if file.stem == default else " "
        comments = re.findall(r"^# (?!@package)(.*)$", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
        first, *others = textwrap.wrap("".join(comments[:1]), _WIDTH - _INDENT, break_on_hyphens=False) or [""]
        yield f"  {mark} {file.stem:<{_INDENT - 5}} {first}"
        yield from (" " * _INDENT + line for line in others)
