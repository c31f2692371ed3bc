"""Sweeps: one parent run, children under it, one table at the end."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from experiments.build import component
from experiments.config import register_resolvers, resolve
from experiments.outputs import SUMMARY, read_summary
from experiments.terminal import print_path, print_sweep
from experiments.track import PARENT_FILE, Tracking


class SweepCallback(Callback):
    """Opens the parent run before the jobs fan out and reports all of them when the last has ended."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        register_resolvers()
        folder = Path(config.hydra.sweep.dir)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            parent = _tracking(config).start_sweep(folder.name)
        except Exception as error:
            sys.stderr.write(f"warning: tracking is not available, results go to files only: {error}\n")
            parent = None
        (folder / PARENT_FILE).write_text(json.dumps({"run_id": parent}), encoding="utf-8")

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        folder = Path(config.hydra.sweep.dir)
        parent = json.loads((folder / PARENT_FILE).read_text(encoding="utf-8"))["run_id"]
        if parent:
            _tracking(config).finish(parent)
        print_sweep(summaries(folder), folder / "sweep.csv")
        print_path(folder)


def summaries(folder: Path) -> list[dict[str, Any]]:
    """Summaries of a sweep's finished jobs, by job number."""
    jobs = sorted((p.parent for p in folder.glob(f"*/{SUMMARY}")), key=lambda p: (len(p.name), p.name))
    return [{"job": job.name, **summary} for job in jobs if (summary := read_summary(job))]


def _tracking(config: DictConfig) -> Tracking:
    tracking: Tracking = component({"tracking": resolve(config.tracking)}, "tracking")
    return tracking
