"""One process at a time in a folder, however the one before it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.publish.folders import LOCK, locked
from ragtune.core.errors import ConfigError

HOLD = """
import sys
from pathlib import Path
from experiments.publish.folders import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    with pytest.raises(ConfigError, match="is in use"), locked(tmp_path):
        pass
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert (tmp_path / LOCK).exists()
    with locked(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []
