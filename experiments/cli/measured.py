"""Measures a run with TIREx tracker, as a callback of Hydra: ``ragtune run hydra/callbacks=tirex``."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from omegaconf import DictConfig
from tirex_tracker import tracking

from experiments.publish.files import write_text


class TirexCallback(Callback):
    """Writes ``ir-metadata.yml`` into a run's folder: machine, time, memory, and energy where it is known."""

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        self._folder = TemporaryDirectory()  # it writes an archive of the code, too
        self._tracking = tracking(export_file_path=Path(self._folder.name, "ir-metadata.yml"))

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        self._tracking.stop()
        with self._folder as folder:
            text = Path(folder, "ir-metadata.yml").read_text(encoding="utf-8")
        write_text(Path(config.hydra.runtime.output_dir, "ir-metadata.yml"), text)
