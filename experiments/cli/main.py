"""The command line around Hydra: help, exit codes, messages. It imports late, so that a bad option is told at once."""

from __future__ import annotations

import os
import re
import sys
import textwrap
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partialmethod
from pathlib import Path
from typing import Any

import yaml
from hydra import initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.core.utils import configure_log, run_job
from hydra.errors import HydraException
from hydra.types import HydraContext
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from experiments.config.compose import JobConfigs, composed, parsed, readable, register_resolvers, resolve, spelled_out
from experiments.config.options import without_dashes
from experiments.config.paths import CONF
from experiments.config.targets import require_hydra_allowed
from experiments.publish.folders import note_missing, remove_if_empty, remove_new_empty
from ragtune.cli.dispatch import DONE, INTERRUPTED, Parser, complain
from ragtune.core.errors import ConfigError, RagtuneError
from ragtune.core.plain import first_line

LOST = {"BrokenProcessPool", "UncompletedJobError", "WorkersLostError"}
"""What joblib's launcher, submitit's and executors raise where a process died at work."""


_THEIRS = ("hydra.", "hydra_plugins.", "optuna.", "joblib.")

_in_progress: list[Any] = []
"""The sweep in progress, if any. Its module is imported where it is needed."""


class _Callbacks:
    """The callbacks of a configuration, which Hydra's functions call as one."""

    def __init__(self, config: DictConfig) -> None:
        self._callbacks = [instantiate(node) for node in (config.hydra.callbacks or {}).values()]

    def call(self, event: str, **about: Any) -> None:
        for callback in self._callbacks[:: -1 if event.endswith("_end") else 1]:
            try:
                getattr(callback, event)(**about)
            except Exception as error:  # as with Hydra itself
                sys.stderr.write(f"warning: {type(callback).__name__}.{event} failed: {first_line(error)}\n")

    on_job_start, on_job_end = partialmethod(call, "on_job_start"), partialmethod(call, "on_job_end")


def main(words: Sequence[str], command: str = "ragtune run") -> int:
    """Run ``ragtune run`` and return its exit code (0 done, 2 bad input, 1 else, 130 interrupted)."""
    register_resolvers()
    code = INTERRUPTED  # by a second Ctrl-C, where the first is still being complained about
    try:
        code = _launch(words, command)
    finally:
        if _in_progress:
            _in_progress.pop().abandon(is_interrupted=code == INTERRUPTED)
        remove_new_empty()
    return code


def _launch(given: Sequence[str], command: str) -> int:
    try:
        amounts = [word for word in given if re.match(r"budget=[-+.]*\d", word)]
        if len(amounts) > 1:
            raise ConfigError(f"{' '.join(amounts)}: allowed is one; others have names, as budget.max_reranker_calls=3")
        words = spelled_out(given)
        sys.argv[:] = ["run.py", *words]  # which tracking notes
        parser = Parser(command, add_help=False)
        parser.propose = without_dashes
        parser.add_argument("overrides", nargs="*")
        parser.add_argument("--help", "-h", action="store_true")
        parser.add_argument("--multirun", "-m", action="store_true")
        parser.add_argument("--config-dir", "-cd")
        options = parser.parse_args(words)
        overrides = options.overrides
        if options.config_dir:
            if not Path(options.config_dir).is_dir():
                raise ConfigError(f"--config-dir {options.config_dir}: there is no such folder")
            overrides = [*overrides, f"hydra.searchpath=[file://{Path(options.config_dir).absolute()}]"]
        if options.help:
            shown = OmegaConf.to_yaml(composed(overrides, "config", command))
            sys.stdout.write(f"{help_text(shown, is_sweep=options.multirun)}\n")
            return DONE
        with initialize_config_dir(str(CONF), job_name="main", version_base="1.3"):
            (_sweep if options.multirun else _run)(overrides)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else DONE
    except (Exception, KeyboardInterrupt) as error:
        return _complain(error, sweep=_in_progress[0].folder if _in_progress else None, command=command)
    return DONE


def _run(overrides: Sequence[str]) -> None:
    config, context = _begun(overrides, "run")
    if Path(config.hydra.run.dir).resolve() == Path.cwd():
        raise ConfigError("hydra.run.dir: allowed is a folder of its own, as a run writes config.yaml and other files")
    note_missing(Path(config.hydra.run.dir))
    context.callbacks.call("on_run_start", config=config, config_name="config")
    done = run_job(_run_once, config, "hydra.run.dir", None, context)
    context.callbacks.call("on_run_end", config=config, config_name="config", job_return=done)
    _ = done.return_value  # or what was raised


def _sweep(overrides: Sequence[str]) -> None:
    from experiments.cli.sweep import Sweep, job_folders

    words = [parsed(word) for word in overrides]
    for word in words:
        if word.is_sweep_override() and word.is_hydra_override():
            raise ConfigError(f"{word.input_line}: Hydra's own options cannot be swept")
    unswept = [str(word.input_line) for word in words if not word.is_sweep_override()]
    config, context = _begun(unswept, "sweep")
    task = [str(word.input_line) for word in words if not word.is_hydra_override()]
    config.hydra.overrides.task = task
    note_missing(Path(config.hydra.sweep.dir))
    _in_progress.append(Sweep(config))
    context.callbacks.call("on_multirun_start", config=config, config_name="config")
    sweeper = Plugins.instance().instantiate_sweeper(hydra_context=context, task_function=_run_job, config=config)
    sweeper.sweep(task)
    if not job_folders(_in_progress[0].folder):
        raise ConfigError(f"{' '.join(task)}: this sweep has no job")
    context.callbacks.call("on_multirun_end", config=config, config_name="config")
    _in_progress.pop().end()


def _begun(overrides: Sequence[str], kind: str) -> tuple[DictConfig, Any]:
    """The configuration, and what Hydra's functions need besides. It is checked before Hydra calls what it names."""
    jobs = JobConfigs([*overrides, f"hydra.mode={'RUN' if kind == 'run' else 'MULTIRUN'}"])
    config = jobs.config
    require_hydra_allowed(config.hydra)
    place = str(OmegaConf.to_container(config.hydra[kind], resolve=False))
    if config.get("resume") is True and "${now:" in place:
        raise ConfigError(f"resume=true: give the folder of the {kind} that it goes on with as hydra.{kind}.dir=DIR")
    configure_log(config.hydra.hydra_logging, config.hydra.verbose)
    callbacks: Any = _Callbacks(config)  # of the class that Hydra's functions expect, their methods alone
    return config, HydraContext(jobs, callbacks)


def _run_once(cfg: DictConfig) -> float | None:
    from experiments.publish.folders import locked

    folder, overrides = _job()
    try:
        with locked(folder):
            return _replayed(cfg, folder, overrides)
    except (Exception, KeyboardInterrupt) as error:
        # Raised any other way, it would come with Hydra's own lines around it.
        raise SystemExit(_complain(error, folder)) from None


def _job() -> tuple[Path, list[str]]:
    """The folder and the overrides of the run or job that Hydra has begun."""
    job = HydraConfig.get()
    overrides: Any = OmegaConf.to_container(job.overrides.task, resolve=False)
    return Path(job.runtime.output_dir), overrides


def _run_job(cfg: DictConfig) -> float | None:
    """One job of a sweep; its failure is written down and leaves the others alone. A folder in use ends the sweep."""
    from experiments.cli.sweep import FAILURE, note_failure, summaries
    from experiments.publish.folders import locked
    from experiments.replay.executors import end_with

    if "joblib" in str(HydraConfig.get().launcher._target_):
        end_with(os.getppid())  # a worker process of the launcher, which is its parent
    register_resolvers()  # in a worker process
    folder, overrides = _job()
    prefix, sweep = f"job {folder.name} ({' '.join(overrides)}): ", Path(HydraConfig.get().sweep.dir).absolute()
    with ExitStack() as stack:
        stack.callback(remove_if_empty, folder)
        try:
            stack.enter_context(locked(folder))
        except Exception as error:
            # The folder is another run's: not a word in it.
            raise SystemExit(_complain(error, folder, prefix, sweep)) from None
        is_complete = cfg.resume and folder.name in summaries(sweep)
        try:
            (folder / FAILURE).unlink(missing_ok=True)
            return _replayed(cfg, folder, overrides, _in_progress[0].planned if _in_progress else ())
        except BrokenPipeError as error:
            _complain(error)  # the reader of its output is gone; its files are written
            return None
        except Exception as error:
            code = _complain(error, folder, prefix, sweep)
            if is_complete:  # refused, with other options perhaps: the results that are there are no failure
                raise SystemExit(code) from None
            note_failure(folder, code)
            return None


def _replayed(
    cfg: DictConfig, folder: Path, overrides: list[str], sweep: Sequence[Sequence[str]] | None = None
) -> float | None:
    config = resolve(cfg)
    from experiments.cli.experiment import run_experiment

    try:
        return run_experiment(config, folder, overrides, sweep=sweep)
    except SystemExit as end:  # its code would pass for the run's, and end a sweep
        if isinstance(end.__context__, BrokenPipeError):  # of Rich: who reads the table has seen enough
            raise
        raise RagtuneError(f"a component ended the program: {end!r}; {_what_is_kept(folder, None)}") from end


def _complain(
    error: BaseException,
    folder: Path | None = None,
    prefix: str = "",
    sweep: Path | None = None,
    command: str = "ragtune run",
) -> int:
    """Say what went wrong in one line (a defect of the program: with its traceback) and return the exit code."""
    frames = list(traceback.walk_tb(error.__traceback__))
    # Complaints of Hydra and its plugins about what they were given come in Python's words, too.
    is_hydras = frames and str(frames[-1][0].f_globals.get("__name__")).startswith(_THEIRS)
    if isinstance(error, HydraException | OmegaConfBaseException) or (
        is_hydras and isinstance(error, ValueError | TypeError)
    ):
        error = ConfigError(readable(error, command))
    kept = _what_is_kept(folder, sweep)
    if LOST & {kind.__name__ for kind in type(error).__mro__}:
        from experiments.replay.executors import WorkersLostError, told

        error = RagtuneError(f"{error if isinstance(error, WorkersLostError) else told(error)}; {kept}")
    return complain(error, prefix, kept, folder)


def _what_is_kept(folder: Path | None, sweep: Path | None) -> str:
    if folder:
        from experiments.replay.journal import Journal

        if not (folder / Journal.NAME).exists():
            return "no query was finished before: repeat the command"
    where = f"hydra.sweep.dir={sweep}" if sweep else f"hydra.run.dir={folder}" if folder else "the same folder"
    return f"finished queries are kept: repeat the command with {where} resume=true"


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
