"""The command line around Hydra: exit codes and messages.

What needs the library is imported where it is used, so that ``--help`` and bad options are answered at once.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from experiments.cli.help import help_template
from experiments.config.compose import readable, register_resolvers, resolve
from experiments.config.overrides import spelled_out
from experiments.config.paths import CONF
from experiments.publish.folders import note_missing, remove_if_empty, remove_new_empty

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of the system for a full disk, an exhausted quota and a file that is too large."""


class HarnessCallback(Callback):
    """What Hydra calls around a run or a sweep: it notes the folders that are new, and opens and closes a sweep."""

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        note_missing(Path(config.hydra.run.dir))

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        from experiments.cli.sweep import begin_sweep

        note_missing(Path(config.hydra.sweep.dir))
        begin_sweep(config)

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        from experiments.cli.sweep import end_sweep

        end_sweep(config)


def main(root: str = "config") -> int:
    """Run the command line of ``run.py`` and return its exit code (0 done, 2 bad input, 1 else, 130 interrupted).

    Args:
        root: the file of conf/ that the configuration begins with.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"
    if "--version" in sys.argv[1:]:
        from ragtune import __version__

        sys.stdout.write(f"ragtune {__version__}\n")
        return DONE
    register_resolvers()
    OmegaConf.register_new_resolver("harness_help", help_template, replace=True)
    code = INTERRUPTED  # by a second Ctrl-C, where the first is still being complained about
    try:
        code = _launch(root)
    finally:
        _clean_up(code)
    return code


def _launch(root: str) -> int:
    try:
        sys.argv[1:] = spelled_out(sys.argv[1:])
        hydra.main(version_base="1.3", config_path=str(CONF), config_name=root)(_app)()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else DONE
    except (Exception, KeyboardInterrupt) as error:
        return _complain(error)
    return DONE


def _app(cfg: DictConfig) -> None:
    from experiments.publish.lock import locked

    register_resolvers()
    job = HydraConfig.get()
    folder = Path(job.runtime.output_dir)
    overrides: list[str] = OmegaConf.to_container(job.overrides.task, resolve=False)  # type: ignore[assignment]
    if job.mode == RunMode.MULTIRUN:
        _run_job(cfg, folder, overrides)
        return
    try:
        with locked(folder):
            _run(cfg, folder, overrides, in_sweep=False)
    except (Exception, KeyboardInterrupt) as error:
        # Raised any other way, it would come with Hydra's own lines around it.
        raise SystemExit(_complain(error, folder)) from None


def _run_job(cfg: DictConfig, folder: Path, overrides: list[str]) -> None:
    """One job of a sweep; its failure is written down and leaves the others alone. A folder in use ends the sweep."""
    from experiments.cli.sweep import forget_failure, note_failure
    from experiments.publish.lock import locked

    prefix = f"job {folder.name} ({' '.join(overrides)}): "
    with ExitStack() as stack:
        stack.callback(remove_if_empty, folder)
        try:
            stack.enter_context(locked(folder))
        except Exception as error:
            raise SystemExit(
                _complain(error, folder, prefix)
            ) from None  # the folder is another run's: not a word in it
        try:
            forget_failure(folder)
            _run(cfg, folder, overrides, in_sweep=True)
        except Exception as error:
            note_failure(folder, _complain(error, folder, prefix))


def _run(cfg: DictConfig, folder: Path, overrides: list[str], *, in_sweep: bool) -> None:
    config = resolve(cfg, str(HydraConfig.get().job.config_name))
    if config["dry_run"]:
        from experiments.publish.terminal import print_forecast, progress_bar
        from experiments.replay.build import component

        with progress_bar("forecasting", enabled=config["verbosity"] > 0) as update:
            print_forecast(component(config, "subject").forecast(config, update))
        return
    from experiments.cli.experiment import run_experiment

    run_experiment(config, folder, overrides, in_sweep=in_sweep)


def _complain(error: BaseException, folder: Path | None = None, prefix: str = "") -> int:
    """Say what went wrong in one line (a defect of the program: with its traceback) and return the exit code."""
    from ragtune.core.errors import InputError, RagtuneError

    if isinstance(error, KeyboardInterrupt):
        again = f"hydra.run.dir={folder} resume=true" if folder else "resume=true and the same folder"
        message, code = f"interrupted; finished queries are kept: repeat the command with {again}", INTERRUPTED
    elif isinstance(error, InputError):
        message, code = str(error), BAD_INPUT
    elif isinstance(error, HydraException | OmegaConfBaseException) or _is_hydras(error):
        message, code = readable(error), BAD_INPUT
    elif isinstance(error, BrokenPipeError):
        _close_output()  # whoever read it, as `| head` does, has seen enough
        return FAILED
    elif isinstance(error, OSError):
        message, code = _about_files(error, folder)
    elif isinstance(error, RagtuneError):
        message, code = str(error), FAILED
    else:
        traceback.print_exception(error)
        message, code = f"{type(error).__name__}: {error}", FAILED
    sys.stderr.write(f"error: {prefix}{' '.join(message.splitlines())}\n")
    return code


def _close_output() -> None:
    """Have the interpreter flush what is left to nowhere when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _about_files(error: OSError, folder: Path | None) -> tuple[str, int]:
    """What the system refused, and the exit code: a file that cannot be used is bad input, a full disk is not."""
    where, why = error.filename or folder or "a file", error.strerror or str(error)
    if error.errno not in NO_ROOM:
        return f"cannot use {where}: {why}", BAD_INPUT
    again = f"hydra.run.dir={folder} resume=true" if folder else "resume=true and the same folder"
    return (
        f"no room for {where}: {why}; finished queries are kept: make room and repeat the command with {again}",
        FAILED,
    )


def _is_hydras(error: BaseException) -> bool:
    """Whether it is a complaint of Hydra itself about what it was given, in Python's own words."""
    frames = list(traceback.walk_tb(error.__traceback__))
    return isinstance(error, ValueError | TypeError) and frames[-1][0].f_globals.get("__name__", "").startswith(
        "hydra."
    )


def _clean_up(code: int) -> None:
    if "experiments.cli.sweep" in sys.modules:
        from experiments.cli.sweep import abandon_unfinished

        abandon_unfinished(is_interrupted=code == INTERRUPTED)
    remove_new_empty()
