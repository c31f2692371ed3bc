"""The command line: exit codes and messages around Hydra."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from experiments.config import CONF, register_resolvers, resolve
from ragtune.core.errors import InputError, RagtuneError

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def main() -> int:
    """Run the command line of ``run.py`` and return its exit code (0 done, 2 bad input, 1 else, 130 interrupted)."""
    os.environ["HYDRA_FULL_ERROR"] = "1"
    register_resolvers()
    try:
        _app()
    except InputError as error:
        return _complain(str(error), BAD_INPUT)
    except (HydraException, OmegaConfBaseException) as error:
        return _complain(_compact(error), BAD_INPUT)
    except OSError as error:
        return _complain(f"cannot use {error.filename or 'a file'}: {error.strerror or error}", BAD_INPUT)
    except RagtuneError as error:
        return _complain(str(error), FAILED)
    except KeyboardInterrupt:
        return _complain("interrupted; finished queries are kept: repeat the command with resume=true", INTERRUPTED)
    return DONE


@hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
def _app(cfg: DictConfig) -> None:
    register_resolvers()
    job = HydraConfig.get()
    folder = Path(job.runtime.output_dir)
    try:
        _run(cfg, folder, list(job.overrides.task), in_sweep=job.mode == RunMode.MULTIRUN)
    finally:
        _remove_if_empty(folder)


def _run(cfg: DictConfig, folder: Path, overrides: list[str], *, in_sweep: bool) -> None:
    config = resolve(cfg)
    if config["dry_run"]:
        from experiments.forecast import forecast, print_forecast
        from experiments.terminal import progress_bar

        with progress_bar("forecasting", enabled=config["verbosity"] > 0) as update:
            print_forecast(forecast(config, update))
        return
    from experiments.app import run_experiment

    run_experiment(config, folder, overrides, in_sweep=in_sweep)


def _remove_if_empty(folder: Path) -> None:
    """A run that ended before it wrote anything leaves no trace of its folder."""
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _compact(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(line for line in lines if not line.startswith(("See ", "Set the environment")))


def _complain(message: str, code: int) -> int:
    sys.stderr.write(f"error: {message}\n")
    return code
