"""Clients from the npm registry, in folders beside this file."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from patience import HANG_S


def install(name: str, parent: Path) -> Path:
    """A copy of that folder in the parent, with its packages installed."""
    folder = parent / name
    shutil.copytree(Path(__file__).parent / name, folder)
    if shutil.which("npm") is None:
        _missing("there is no npm on this machine: apt-get install npm")
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=HANG_S)
    if done.returncode != 0:
        _missing(f"npm cannot install the clients: {done.stderr[-500:]}")
    return folder


def _missing(reason: str) -> None:
    """Skip on a developer's machine, fail where every test must run."""
    (pytest.fail if "RAGTUNE_CI" in os.environ else pytest.skip)(reason)
